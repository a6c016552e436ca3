"""The pairs found so far between two graphs, and how a pair leads to more."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from typing import Literal

from qnndbg.analyze.diff.form import UNKNOWN, Form


class Alignment:
    """Pairs of nodes of two graphs; a node is in one pair at most, and a pair is never undone.

    Args:
        a: one graph.
        b: the other.
    """

    def __init__(self, a: Form, b: Form) -> None:
        self.a, self.b = a, b
        self.to_b = [UNKNOWN] * len(a.exact)
        self.to_a = [UNKNOWN] * len(b.exact)
        self.how: dict[int, str] = {}
        self._fresh: deque[int] = deque()

    @property
    def done(self) -> bool:
        """No node of one side is left."""
        return len(self.how) == min(len(self.to_b), len(self.to_a))

    def take(self, i: int, j: int, how: str) -> None:
        """Pair two nodes."""
        self.to_b[i], self.to_a[j] = j, i
        self.how[i] = how
        self._fresh.append(i)

    def by_key(
        self,
        keys_a: Sequence[Hashable],
        keys_b: Sequence[Hashable],
        how: str,
        *,
        single: bool = False,
    ) -> None:
        """Pair the free nodes whose keys are equal and, on both sides, equally frequent.

        Args:
            keys_a: a key for each node of A; None for none.
            keys_b: the same of B.
            how: the evidence.
            single: only where a key has one node on each side.
        """
        groups_a, groups_b = _groups(keys_a, self.to_b), _groups(keys_b, self.to_a)
        for key, left in groups_a.items():
            right = groups_b.get(key, ())
            if len(left) == len(right) and (len(left) == 1 or not single):
                for i, j in zip(left, right, strict=True):
                    if not self.contradicted(i, j):
                        self.take(i, j, how)

    def spread(self, *, strict: bool) -> None:
        """Pair the neighbours of pairs, and theirs, as long as there are any.

        Args:
            strict: only nodes all of whose neighbours on that side are paired with one another.
        """
        if not strict:
            self._fresh = deque(sorted(self.how))
        while self._fresh and not self.done:
            i = self._fresh.popleft()
            j = self.to_b[i]
            for u, v in zip(self.a.refs[i], self.b.refs[j], strict=False):
                if u >= 0 and v >= 0 and self._free(u, v) and self._same_users(u, v, strict=strict):
                    self.take(u, v, "neighbours")
            self._spread_down(i, j, strict=strict)
        self._fresh.clear()

    def _spread_down(self, i: int, j: int, *, strict: bool) -> None:
        right = self._free_users("b", j)
        if not right:
            return
        for key, users in self._free_users("a", i).items():
            others = right.get(key, [])
            if len(users) == len(others) == 1 and self._same_refs(users[0], others[0], strict=strict):
                self.take(users[0], others[0], "neighbours")
            elif len(users) > 1 and others:
                self._tell_apart(users, others)

    def _tell_apart(self, users: list[int], others: list[int]) -> None:
        """Of several users of a kind, pair those that everything else that they read singles out."""
        left, right = defaultdict(list), defaultdict(list)
        for u in users:
            left[self.read_by("a", u)].append(u)
        for v in others:
            right[self.read_by("b", v)].append(v)
        for key, found in left.items():
            match = right.get(key, [])
            if len(found) == len(match) == 1 and UNKNOWN not in key and self._free(found[0], match[0]):
                self.take(found[0], match[0], "neighbours")

    def read_by(self, side: Literal["a", "b"], node: int) -> tuple[int, ...]:
        """What a node reads, as positions in A; ``UNKNOWN`` for what is not paired."""
        if side == "b":
            return tuple(self.to_a[r] if r >= 0 else UNKNOWN for r in self.b.refs[node])
        return tuple(r if r >= 0 and self.to_b[r] >= 0 else UNKNOWN for r in self.a.refs[node])

    def places(self, side: Literal["a", "b"]) -> list[Hashable]:
        """Between which pairs a node stands; None where it has none above or none below."""
        form, partners = (self.a, self.to_b) if side == "a" else (self.b, self.to_a)
        found: list[Hashable] = []
        for node in range(len(form.exact)):
            if partners[node] >= 0:
                found.append(None)
                continue
            above = frozenset(self.read_by(side, node)) - {UNKNOWN}
            users = [(user if side == "a" else self.to_a[user], place) for user, place in form.readers[node]]
            paired = self.to_b if side == "a" else None
            below = frozenset(
                (user, place) for user, place in users if user >= 0 and (paired is None or paired[user] >= 0)
            )
            found.append((above, below) if above and below else None)
        return found

    def contradicted(self, i: int, j: int) -> bool:
        """Both read only what is paired, and none of it with one another."""
        left, right = self.read_by("a", i), self.read_by("b", j)
        if not left or UNKNOWN in left or UNKNOWN in right:
            return False
        return not set(left) & set(right)

    def _free(self, i: int, j: int) -> bool:
        return self.to_b[i] == self.to_a[j] == UNKNOWN and self.a.kind[i] == self.b.kind[j]

    def _same_refs(self, i: int, j: int, *, strict: bool) -> bool:
        left, right = self.read_by("a", i), self.read_by("b", j)
        if strict:
            return left == right and UNKNOWN not in left
        return len(left) == len(right) and all(x == y for x, y in zip(left, right, strict=True))

    def _same_users(self, i: int, j: int, *, strict: bool) -> bool:
        left = [(user, place) for user, place in self.a.readers[i] if self.to_b[user] >= 0]
        right = [(self.to_a[user], place) for user, place in self.b.readers[j] if self.to_a[user] >= 0]
        if strict and len(left) + len(right) < len(self.a.readers[i]) + len(self.b.readers[j]):
            return False
        return sorted(left) == sorted(right)

    def _free_users(self, side: Literal["a", "b"], node: int) -> dict[tuple[int, int], list[int]]:
        form, partners = (self.a, self.to_b) if side == "a" else (self.b, self.to_a)
        users: dict[tuple[int, int], list[int]] = {}
        for user, place in form.readers[node]:
            if partners[user] < 0:
                users.setdefault((form.kind[user], place), []).append(user)
        return users


def _groups(keys: Sequence[Hashable], partners: list[int]) -> dict[Hashable, list[int]]:
    groups: dict[Hashable, list[int]] = defaultdict(list)
    for node, key in enumerate(keys):
        if key is not None and partners[node] < 0:
            groups[key].append(node)
    return groups
