"""A person's program: a logistic regression of their own data, with nothing of any platform."""

import argparse
import json
import math
import pathlib
import random

from helpers import reading
from helpers.words import plain


def gradient(weights, features, label):
    """Of the logistic loss at one example; and the loss itself."""
    total = sum(weight * value for weight, value in zip(weights, features, strict=True))
    guess = 1.0 / (1.0 + math.exp(-max(-30.0, min(30.0, total))))
    loss = -math.log(max(1e-12, guess if label else 1.0 - guess))
    return [(guess - label) * value for value in features], loss


def epoch(weights, examples, rate):
    """One pass over the data; returns the mean loss."""
    losses = []
    for features, label in examples:
        slope, loss = gradient(weights, features, label)
        for place, value in enumerate(slope):
            weights[place] -= rate * value
        losses.append(loss)
    return sum(losses) / len(losses)


def load(directory, seed):
    """The examples in an order that the seed gives."""
    examples = list(reading.examples(directory / "numbers.bin"))
    random.Random(seed).shuffle(examples)
    return examples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("data"))
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"))
    options = parser.parse_args()
    title = plain((options.data / "title.txt").read_text(encoding="utf-8"))
    examples = load(options.data, options.seed)
    weights = [0.0] * len(examples[0][0])
    for number in range(options.epochs):
        loss = epoch(weights, examples, options.rate)
        print(f"epoch {number + 1}: loss {loss:.4f}", flush=True)
    options.out.mkdir(exist_ok=True)
    model = {"title": title, "weights": weights}
    (options.out / "model.json").write_text(json.dumps(model))
    print(f"saved {options.out / 'model.json'}")


if __name__ == "__main__":
    main()
