"""This module decides which of two values that were written on different machines is the newer one. It is pure.

Each value, such as the title of a session, has a version vector: how often each machine has written it. A value that
was written after another one was seen replaces it, whatever the clocks say. Of two values that were written without
knowing each other, the later one by hybrid logical clock counts on all machines, and the other one is kept as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self

from store.errors import BadValue
from store.model.entry import Json

Order = Literal["newer", "older", "same", "concurrent"]
Vector = Mapping[str, int]

_MAX_COUNT = 2**53


class Moment(NamedTuple):
    """Is a time of a hybrid logical clock: it never goes back, and is later than all times that were seen before."""

    milliseconds: int
    counter: int
    machine: str

    @classmethod
    def after(cls, last: Moment | None, milliseconds: int, machine: str) -> Self:
        """Return the next moment on a machine: that of its clock, unless it has seen a later one."""
        if last is None or milliseconds > last.milliseconds:
            return cls(milliseconds, 0, machine)
        return cls(last.milliseconds, last.counter + 1, machine)

    @classmethod
    def parse(cls, value: Json) -> Self:
        if not isinstance(value, list) or len(value) != 3:
            raise BadValue("A time is wrong.")
        milliseconds, counter, machine = value
        if not is_count(milliseconds) or not is_count(counter) or not isinstance(machine, str):
            raise BadValue("A time is wrong.")
        return cls(milliseconds, counter, machine)


class SharedValue(NamedTuple):
    """Is a value with what is needed to compare it with another one."""

    value: Json
    vector: dict[str, int]
    moment: Moment

    @classmethod
    def parse(cls, body: Mapping[str, Any]) -> Self:
        vector = body.get("vector")
        if not isinstance(vector, dict) or not all(is_count(count) for count in vector.values()):
            raise BadValue("A version vector is wrong.")
        return cls(body.get("value"), vector, Moment.parse(body.get("moment")))

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "vector": self.vector, "moment": list(self.moment)}

    def written_after(self, last: SharedValue | None, machine: str) -> SharedValue:
        """Return this value as it is when a machine writes it after it has seen another one."""
        vector = dict(last.vector if last else {})
        vector[machine] = vector.get(machine, 0) + 1
        return self._replace(vector=vector)


class Merge(NamedTuple):
    kept: SharedValue
    lost: SharedValue | None
    "Is the other value if both were written without knowing each other. None if nobody has to choose."
    is_incoming: bool
    "Is true if the incoming value counts now."


def merge_values(current: SharedValue | None, incoming: SharedValue) -> Merge:
    """Return the value that counts, which is the same in whatever order values arrive."""
    if current is None:
        return Merge(incoming, None, True)
    match compare_vectors(incoming.vector, current.vector):
        case "newer":
            return Merge(incoming, None, True)
        case "older" | "same":
            return Merge(current, None, False)
        case "concurrent":
            is_incoming = incoming.moment > current.moment
            kept, lost = (incoming, current) if is_incoming else (current, incoming)
            vector = join_vectors(current.vector, incoming.vector)
            # A machine knew what it had written itself, also where another value has been merged with that meanwhile.
            is_settled = kept.value == lost.value or kept.moment.machine == lost.moment.machine
            return Merge(kept._replace(vector=vector), None if is_settled else lost, is_incoming)


def compare_vectors(one: Vector, other: Vector) -> Order:
    machines = one.keys() | other.keys()
    is_ahead = any(one.get(machine, 0) > other.get(machine, 0) for machine in machines)
    is_behind = any(one.get(machine, 0) < other.get(machine, 0) for machine in machines)
    if is_ahead and is_behind:
        return "concurrent"
    return "newer" if is_ahead else "older" if is_behind else "same"


def join_vectors(one: Vector, other: Vector) -> dict[str, int]:
    return {machine: max(one.get(machine, 0), other.get(machine, 0)) for machine in sorted(one.keys() | other.keys())}


def is_count(value: Json) -> bool:
    """Return whether a value from another machine is a number that can be counted with."""
    return type(value) is int and 0 <= value < _MAX_COUNT
