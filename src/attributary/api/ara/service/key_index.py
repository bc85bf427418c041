"""key_index: where a 128-bit key stands in a list of keys, for many keys at once."""

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attributary.types import Ints, Keys


@dataclass(frozen=True, eq=False)
class Index:
    """Keys by a hash of 64 bits under which no two of them are alike."""

    keys: Keys
    seed: np.uint64
    hashes: NDArray[np.uint64]  # ascending
    order: Ints

    @classmethod
    def of(cls, keys: Keys) -> "Index":
        """The index of some keys; one that comes again is left out."""
        while True:
            seed = np.uint64(secrets.randbits(64))
            hashes = _hashes(keys, seed)
            order = np.argsort(hashes)
            hashes = hashes[order]
            if not (hashes[1:] == hashes[:-1]).any():
                return cls(keys, seed, hashes, order)
            keys = distinct(keys)[0]  # else, about once in 2⁶⁴/n², two keys share a hash, and another seed parts them

    def find(self, keys: Keys) -> Ints:
        """The place of each key in the list; -1 if it is not there."""
        if not len(self.keys):
            return np.full(len(keys), -1)
        hashes = _hashes(keys, self.seed)
        ascending = np.argsort(hashes)  # far faster to look up, since neighbours share their way
        place = np.empty(len(keys), np.int64)
        place[ascending] = np.searchsorted(self.hashes, hashes[ascending])
        place[place == len(self.hashes)] = 0
        position = self.order[place]
        same = (self.hashes[place] == hashes) & (self.keys[position] == keys).all(axis=1)
        return np.where(same, position, -1)


def distinct(keys: Keys) -> tuple[Keys, Ints]:
    """The keys without repeats, in the order of their first appearance, and the place of each given key among them."""
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    group = np.cumsum(new) - 1
    first = order[new]  # lexsort is stable, so that the first of a group is its first appearance
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    place = np.empty(len(keys), np.int64)
    place[order] = rank[group]
    return keys[np.sort(first)], place


def _hashes(keys: Keys, seed: np.uint64) -> NDArray[np.uint64]:
    """The high half mixed with the seed, plus the low half: for most seeds, different for different keys."""
    mixed = keys[:, 0] ^ seed
    for factor in (np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)):
        mixed = (mixed ^ (mixed >> np.uint64(33))) * factor
    mixed ^= mixed >> np.uint64(33)
    return mixed + keys[:, 1]
