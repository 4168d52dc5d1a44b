"""How sure a figure of many repeats is."""
import random


def bootstrap(values, figure, draws, seed=0):
    """`figure` of the values, and the ends of its 95% interval by bootstrap."""
    rng = random.Random(seed)
    drawn = sorted(figure(rng.choices(values, k=len(values))) for _ in range(draws))
    return figure(values), drawn[int(0.025 * draws)], drawn[int(0.975 * draws)]
