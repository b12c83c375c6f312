"""Make MICA's Simglucose set: glucose of 30 virtual patients over 90 days, five minutes a row.

    pip install simglucose "setuptools<81"
    python benchmarks/make_simglucose.py --out DATA/simglucose.csv
    python benchmarks/make_simglucose.py --out few.csv --patients 2 --days 3      a part, which goes by another name

The paper says: the simulator's 10 adults, 10 adolescents and 10 children, the Dexcom monitor read every five minutes,
three meals a day and no snacks, their size by the equation of Harris and Benedict. It prints the heights of adults,
adolescents and children as 140, 170 and 175 cm, which we take in the other order. Left open there and decided here:
an inactive day (1.2 times the basal rate), 45 % of its energy from carbohydrates, 4 kcal a gram; times and sizes of
meals scatter around 7:30, 12:30 and 18:30 by half an hour and by 15 %; the simulator's own basal-bolus controller.

A day of a patient takes about a second: 30 patients of 90 days are most of an hour of one core; --workers spreads
them.
"""

import argparse
import csv
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np

START = datetime(2018, 1, 1)
MINUTES = 5
"""Between readings."""
HEIGHTS = {"adult": 175.0, "adolescent": 170.0, "child": 140.0}
MEALS = (7.5, 12.5, 18.5)
"""Hours of the day."""
SCATTER_HOURS, SCATTER_SIZE = 0.5, 0.15
ACTIVITY, CARBOHYDRATES, KCAL_A_GRAM = 1.2, 0.45, 4.0
GROUPS = ("adult", "adolescent", "child")
OF_GROUP = 10


@dataclass(frozen=True, slots=True)
class Person:
    """Facts on which the size of meals depends."""

    name: str
    kilograms: float
    years: float

    @property
    def centimetres(self) -> float:
        return HEIGHTS[self.name.partition("#")[0]]


def daily_carbohydrates(person: Person) -> float:
    """Grams a day, by the equation of Harris and Benedict (1919) for men: the patients' sex is not known."""
    basal = 66.473 + 13.7516 * person.kilograms + 5.0033 * person.centimetres - 6.755 * person.years
    return ACTIVITY * basal * CARBOHYDRATES / KCAL_A_GRAM


def plan_meals(person: Person, days: int, seed: int) -> list[tuple[datetime, float]]:
    """(time, grams) of every meal, in order."""
    draw = np.random.default_rng([seed, *person.name.encode()])
    grams = daily_carbohydrates(person) / len(MEALS)
    meals = []
    for day in range(days):
        for hour in MEALS:
            at = START + timedelta(days=day, hours=hour + SCATTER_HOURS * float(draw.standard_normal()))
            size = grams * max(0.0, 1 + SCATTER_SIZE * float(draw.standard_normal()))
            meals.append((at.replace(second=0, microsecond=0), float(round(size))))
    return sorted(meals)


def simulate(name: str, days: int, seed: int) -> list[float]:
    """The readings of one patient."""
    import pandas as pd
    import pkg_resources
    from simglucose.actuator.pump import InsulinPump
    from simglucose.controller.basal_bolus_ctrller import BBController
    from simglucose.patient.t1dpatient import T1DPatient
    from simglucose.sensor.cgm import CGMSensor
    from simglucose.simulation.env import T1DSimEnv
    from simglucose.simulation.scenario import CustomScenario

    ages = pd.read_csv(pkg_resources.resource_filename("simglucose", "params/Quest.csv")).set_index("Name")["Age"]
    patient = T1DPatient.withName(name, seed=seed)
    person = Person(name, float(patient._params.BW), float(ages[name]))
    sensor = CGMSensor.withName("Dexcom", seed=seed)
    sensor._params["sample_time"] = float(MINUTES)
    sensor.sample_time = float(MINUTES)
    scenario = CustomScenario(start_time=START, scenario=plan_meals(person, days, seed))
    env = T1DSimEnv(patient, sensor, InsulinPump.withName("Insulet"), scenario)
    controller = BBController()
    controller.reset()
    observation, reward, done, info = env.reset()
    # The equations read some fifty parameters at each step: as a pandas Series they took nine tenths of the time.
    patient._params = SimpleNamespace(**patient._params.to_dict())
    readings = [float(observation.CGM)]
    while len(readings) < days * 24 * 60 // MINUTES:
        action = controller.policy(observation, reward, done, **info)
        observation, reward, done, info = env.step(action)
        readings.append(float(observation.CGM))
    return readings


def main() -> None:
    """Simulate, patient by patient, and write one wide file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    parser.add_argument("--days", type=int, default=90)
    parser.add_argument("--patients", type=int, default=len(GROUPS) * OF_GROUP)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    if options.out.is_dir():
        parser.error(f"--out {options.out} is a folder; name a file in it.")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    names = [f"{group}#{number:03d}" for group in GROUPS for number in range(1, OF_GROUP + 1)][: options.patients]
    with ProcessPoolExecutor(options.workers) as pool:
        columns = list(pool.map(partial(simulate, days=options.days, seed=options.seed), names))
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["date", *names])
        for row, cells in enumerate(zip(*columns, strict=True)):
            stamp = START + timedelta(minutes=MINUTES * row)
            writer.writerow([stamp.isoformat(sep=" "), *(f"{cell:.3f}" for cell in cells)])
    print(f"Written to {options.out}: {len(columns[0]):,} rows of {len(names)} patients")


if __name__ == "__main__":
    main()
