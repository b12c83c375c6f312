"""Train glance on synthetic series, for some minutes at a time; run it again to go on.

    python benchmarks/train_glance.py --out RUN --updates 60000 --seconds 540 [--attention rbca:learnable=True]
        [--seed 1] [--set width=320,depth=6,feed_forward=864] [--device cuda]
    python benchmarks/train_glance.py --out RUN --wall 570 [...]                and at last, at the pace that was seen,
    python benchmarks/train_glance.py --out RUN --wall 570 --finish [...]

`--coupled 0.5 --attention "mica:gate=added,exclude_self=True" --start shipped` goes on from the weights of the package
with half of the series as coupled channels, which are read together.
"""

import argparse
import ast
import json
import math
import time
from pathlib import Path

from rearview.pretrained.training import FACTS, TWO_GRAINS, Plan, Trainer

OPEN = 10_000_000
"""Updates of a training whose end is not planned yet."""
SAVING = 10.0
"""Seconds that are left for saving."""
PACED = 160
"""Updates before a last call is planned."""
RESERVE = 0.97
"""Of the time left, what a last call plans to use."""
PLANNED = 3
"""Times that a last call plans its end, each after half of what was left."""


def parse_pairs(text: str) -> dict[str, object]:
    """Settings such as width=320,bias=power_law; tuples as (4;16)."""
    pairs = [part.partition("=") for part in text.split(",") if part]
    return {name: parse_value(value) for name, _, value in pairs}


def parse_value(text: str) -> object:
    try:
        return ast.literal_eval(text.replace(";", ","))
    except (ValueError, SyntaxError):
        return text


def parse_attention(text: str) -> str | dict[str, object]:
    """A mechanism such as rbca:learnable=True."""
    name, _, settings = text.partition(":")
    return {"name": name, **parse_pairs(settings)} if settings else name


def main() -> None:
    started = time.monotonic()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, help="in all; without it, until a call has --finish")
    parser.add_argument("--seconds", type=float, default=math.inf, help="of training in this call, setting up aside")
    parser.add_argument(
        "--wall", type=float, default=math.inf, help="seconds of this call in all, within which it ends"
    )
    parser.add_argument("--finish", action="store_true", help="let the rates fall so that this call is the last")
    parser.add_argument("--every", type=float, default=math.inf, help="seconds of training after which it is saved")
    parser.add_argument("--attention", default="softmax")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", default="", dest="settings")
    parser.add_argument("--tokens", type=int, default=1 << 15, help="of a batch, about")
    parser.add_argument("--fall", type=float, default=0.25, help="the last part of the updates, in which rates fall")
    parser.add_argument("--coupled", type=float, default=0.0, help="share of the series that are coupled channels")
    parser.add_argument("--start", default="", help="weights to start from: a training folder, or `shipped`")
    parser.add_argument("--half", action="store_true", help="keep what the optimisers remember in bfloat16")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--long-kernels", action="store_true", help="compile with our kernels for long axes (rbca)")
    options = parser.parse_args()
    facts = options.out / FACTS
    before = json.loads(facts.read_text(encoding="utf-8"))["plan"] if facts.exists() else {}
    plan = Plan(
        updates=options.updates or before.get("updates", OPEN),
        seed=options.seed,
        attention=parse_attention(options.attention),
        settings={**TWO_GRAINS, **parse_pairs(options.settings)},
        tokens=options.tokens,
        fall=before.get("fall", options.fall),
        coupled=options.coupled,
        start=options.start,
        device=options.device,
        compile=not options.no_compile,
        long_kernels=options.long_kernels,
    )
    trainer = Trainer.load(options.out, plan) if before else Trainer(plan)
    trainer.set_up()
    end = min(time.monotonic() + options.seconds, started + options.wall - SAVING)

    def run(seconds: float) -> None:
        while seconds > 0 and trainer.step_count < trainer.plan.updates:
            begun = time.monotonic()
            trainer.run(min(seconds, options.every))
            trainer.save(options.out, half=options.half)
            print(f"{trainer.step_count} updates, {trainer.seconds:.0f} s", *trainer.curve[-1:], flush=True)
            seconds -= time.monotonic() - begun

    if options.finish:
        trainer.run(end - time.monotonic(), most=trainer.step_count + PACED)
        for _ in range(PLANNED):
            left = end - time.monotonic()
            trainer.finish_within(RESERVE * left)
            run(left / 2)
    run(end - time.monotonic())
    trainer.save(options.out, half=options.half)
    print(f"{trainer.step_count} of {trainer.plan.updates} updates, {trainer.seconds:.0f} s", *trainer.curve[-1:])
    if trainer.step_count >= trainer.plan.updates:
        print(f"loss on series of another seed {trainer.validate(trainer.network):.4f}")


if __name__ == "__main__":
    main()
