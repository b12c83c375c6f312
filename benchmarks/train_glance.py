"""Train glance on synthetic series, for some minutes at a time; run it again to go on.

python benchmarks/train_glance.py --out RUN --updates 60000 --seconds 540 [--attention rbca:learnable=True] [--seed 1]
    [--set width=320,depth=6,feed_forward=864] [--device cuda]
"""

import argparse
import ast
from pathlib import Path

from rearview.pretrained.training import FACTS, TWO_GRAINS, Plan, Trainer


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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--updates", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=540)
    parser.add_argument("--attention", default="softmax")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", default="", dest="settings")
    parser.add_argument("--tokens", type=int, default=1 << 17, help="of a batch, about")
    parser.add_argument("--fall", type=float, default=0.25, help="the last part of the updates, in which rates fall")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-compile", action="store_true")
    options = parser.parse_args()
    plan = Plan(
        updates=options.updates,
        seed=options.seed,
        attention=parse_attention(options.attention),
        settings={**TWO_GRAINS, **parse_pairs(options.settings)},
        tokens=options.tokens,
        fall=options.fall,
        device=options.device,
        compile=not options.no_compile,
    )
    trainer = Trainer.load(options.out, plan) if (options.out / FACTS).exists() else Trainer(plan)
    trainer.run(options.seconds)
    trainer.save(options.out)
    last = trainer.curve[-1]["loss"] if trainer.curve else float("nan")
    print(f"{trainer.step_count} of {plan.updates} updates, {trainer.seconds:.0f} s, loss {last:.4f}")


if __name__ == "__main__":
    main()
