"""attributes: country, device and age group of the CSSCL look-alike's rows, given their partner.

Published are the numbers of values, the shares that are missing, and the revenue of the largest countries. That most
partners sell in one country or two and give few age groups is assumed, and so are the shares of devices and ages.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.logs.generate.choice import Laws, laws
from attributary.logs.generate.fixed import fixed, fixed_normal
from attributary.logs.generate.partners import COUNT, ROWS, partners
from attributary.types import Floats, Ints

PUBLISHED = [72.1, 39.7, 20.5, 17.6, 4.0, 0.89, 0.60, 0.41, 0.25, 0.16, 0.078, 0.039]
ASSUMED = [0.030, 0.023, 0.018, 0.014, 0.011, 0.008, 0.006, 0.005, 0.004, 0.003, 0.0022]
REVENUE = np.array(PUBLISHED + ASSUMED)  # of each country, in millions of euros
DEVICES = np.array([0.34, 0.25, 0.17, 0.10, 0.07, 0.045, 0.02, 0.005])
BUYERS = np.array([1.35, 0.75, 1.15, 0.9, 0.7, 1.1, 0.6, 0.8])  # how much likelier a device is among sales
AGES = np.array([0.66, 0.12, 0.07, 0.045, 0.03, 0.025, 0.02, 0.012, 0.008, 0.006, 0.004])
NO_DEVICE = 0.0002
NO_AGE = 0.7352
Codes = NDArray[np.int8]


class Attributes(NamedTuple):
    """Cells of country, device and age group; the last code of each is `missing`."""

    laws: Laws  # of the cells in each stratum: sale and kind 0, sale and 1, no sale and 0, no sale and 1, by partner
    country: Codes
    device: Codes
    age: Codes


def attributes() -> Attributes:
    country, age = countries(), _ages()
    missing = [len(REVENUE), len(DEVICES), len(AGES)]
    found: list[tuple[Ints, ...]] = []
    weights = []
    for sale in (True, False):
        device = _devices(BUYERS if sale else np.ones(len(DEVICES)))
        for kind in range(2):
            for p in range(COUNT):
                c, a = (country[p], age[p]) if kind == 0 else (_only(missing[0]), _only(missing[2]))
                weight = c[:, None, None] * device[p][None, :, None] * a[None, None, :]
                here = np.nonzero(weight)
                stratum = np.full(len(here[0]), (2 * (not sale) + kind) * COUNT + p)
                found.append((stratum, *here))
                weights.append(weight[here])
    stratum, *codes = (np.concatenate(part) for part in zip(*found, strict=True))
    return Attributes(laws(stratum, np.concatenate(weights)), *(code.astype(np.int8) for code in codes))


def _only(code: int) -> Floats:
    one: Floats = np.eye(code + 1)[code]
    return one


def countries() -> Floats:
    """The share of each country among a partner's rows that have one; the giant sells what is left of each country."""
    size = partners().converting[0]
    target = REVENUE / REVENUE.sum() * size.sum()
    room = 0.85 * target
    sold = np.zeros((COUNT, len(REVENUE)))
    how_many, u = fixed("how many countries", COUNT), fixed("which country", COUNT, 6)
    for p in range(1, COUNT):
        number = 1 + int(np.searchsorted([0.60, 0.82, 0.92, 0.96, 0.98], how_many[p], side="right"))
        part = np.array([0.8, *[0.2 / (number - 1)] * (number - 1)]) if number > 1 else np.ones(1)
        for n, share in enumerate(part):
            enough = (room >= share * size[p]) & ((sold[p] == 0) | (room == room.max()))
            chance = np.cumsum(np.where(enough, room**0.7, 0))  # small countries have more than their share of partners
            c = int(np.searchsorted(chance, u[p, n] * chance[-1], side="right"))
            sold[p, c] += share * size[p]
            room[c] -= share * size[p]
    sold[0] = target - sold.sum(axis=0)
    return np.pad(sold / size[:, None], ((0, 0), (0, 1)))


def _devices(likelier: Floats) -> Floats:
    """The share of each device among a partner's rows; two rare devices are unknown to half of the partners."""
    shares = DEVICES * likelier * np.exp(0.4 * fixed_normal("device", COUNT * len(DEVICES))).reshape(COUNT, -1)
    shares[:, 6:] *= fixed("rare device", COUNT, 2) < 0.5
    shares[0] = DEVICES * likelier
    shares *= (1 - NO_DEVICE) / shares.sum(axis=1, keepdims=True)
    return np.pad(shares, ((0, 0), (0, 1)), constant_values=NO_DEVICE)


def _ages() -> Floats:
    """The share of each age group among a partner's rows with a country; half of the partners never give one."""
    gives, most, first = fixed("gives ages", COUNT, 2), fixed("most ages", COUNT), fixed("ages", COUNT, len(AGES))
    share = np.where(gives[:, 0] < 0.5, 0, 0.3 + 0.7 * gives[:, 1])
    rows = (partners().sales + partners().others)[0]
    given = (1 - NO_AGE) * ROWS.sum() - rows[1:] @ share[1:]
    share[0] = given / rows[0]
    known = first < np.minimum(1, 6 * AGES ** (0.25 + 0.5 * most[:, None]))  # the rarer, the fewer partners give it
    known[:, 0] = True
    known[0] = True
    ages = AGES * known * np.exp(0.5 * fixed_normal("age share", COUNT * len(AGES))).reshape(COUNT, -1)
    ages *= (share / ages.sum(axis=1))[:, None]
    return np.column_stack([ages, 1 - share])
