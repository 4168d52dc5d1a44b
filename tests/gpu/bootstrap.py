"""Bootstrap confidence intervals."""
import random


def bootstrap(values, figure, draws, seed=0):
    """`figure` of the values, and the lower and upper end of its 95% bootstrap interval."""
    rng = random.Random(seed)
    drawn = sorted(figure(rng.choices(values, k=len(values))) for _ in range(draws))
    return figure(values), drawn[int(0.025 * draws)], drawn[int(0.975 * draws)]
