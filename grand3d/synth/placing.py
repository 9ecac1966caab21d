"""Placing things in a room under construction: against walls, on walls, on furniture, free on the floor."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from grand3d.synth.vocabulary import COLOURS, KINDS, MATERIALS, SHAPES, Kind

TRIES = 14  # attempts to find a free place before a thing is left out
SURFACES = (
    "table",
    "desk",
    "counter",
    "shelf",
    "cabinet",
    "dresser",
    "nightstand",
    "stand",
    "vanity",
    "bookshelf",
    "bench",
    "credenza",
)
SEATS = ("bed", "couch", "armchair", "sofa chair", "chair", "bench", "loveseat", "futon", "mattress")
MAX_OBJECTS = 70


@dataclass(slots=True)
class Thing:
    name: str
    x: float
    y: float
    z: float
    w: float
    d: float
    h: float
    look: dict[str, str]
    solid: bool = True


@dataclass(slots=True)
class Room:
    rng: Random
    w: float
    d: float
    height: float
    things: list[Thing] = field(default_factory=list)
    looks: dict[str, dict[str, str]] = field(default_factory=dict)


def size_of(room: Room, kind: Kind) -> tuple[float, float, float]:
    return tuple(room.rng.uniform(*side) for side in kind.size)  # type: ignore[return-value]


def look(room: Room, kind: Kind) -> dict[str, str]:
    """Appearance; things of one category in one room mostly look alike."""
    rng = room.rng
    if kind.name in room.looks and rng.random() < 0.65:
        return room.looks[kind.name]
    look = {"colour": rng.choice(COLOURS), "material": rng.choice(MATERIALS[kind.place]), "shape": rng.choice(SHAPES)}
    room.looks.setdefault(kind.name, look)
    return look


def free(room: Room, x: float, y: float, w: float, d: float, slack: float = 0.03) -> bool:
    if abs(x) + w / 2 > room.w / 2 + 0.02 or abs(y) + d / 2 > room.d / 2 + 0.02:
        return False
    return not any(t.solid and abs(x - t.x) < (w + t.w) / 2 + slack and abs(y - t.y) < (d + t.d) / 2 + slack for t in room.things)


def put(room: Room, name: str, x: float, y: float, z: float, w: float, d: float, h: float, solid: bool = True) -> Thing:
    thing = Thing(name, x, y, z, w, d, h, look(room, KINDS[name]), solid)
    room.things.append(thing)
    return thing


def on_wall(
    room: Room, long: float, short: float, wall: int, along: float, off: float = 0.0
) -> tuple[float, float, float, float]:
    """x, y, w, d of a box against wall 0..3 (+y, -y, +x, -x); ``along`` in [-1, 1] is the place on the wall."""
    span = room.w if wall < 2 else room.d
    depth = room.d if wall < 2 else room.w
    place = along * max(0.0, (span - long) / 2)
    away = depth / 2 - short / 2 - off
    if wall < 2:
        return place, away if wall == 0 else -away, long, short
    return away if wall == 2 else -away, place, short, long


def place(room: Room, name: str, wall: int | None = None) -> Thing | None:
    """One thing, by the place its category stands in; None when there is no room for it."""
    kind, rng = KINDS[name], room.rng
    long, short, height = size_of(room, kind)
    if kind.place == "top" or kind.place == "seat":
        return place_on(room, name, (long, short, height), SEATS if kind.place == "seat" else SURFACES)
    if kind.place == "ceiling":
        if name == "ceiling":
            return put(room, name, 0, 0, room.height, min(long, room.w), min(short, room.d), height, False)
        return put(room, name, *free_spot(room, long, short), room.height - height / 2 - 0.05, long, short, height, False)
    for _ in range(TRIES):
        side = rng.randrange(4) if wall is None else wall
        if kind.place in ("wall", "high", "low"):
            x, y, w, d = on_wall(room, long, short, side, rng.uniform(-1, 1))
            z = mount(room, name, height, kind.place)
            clash = any(
                abs(x - t.x) < (w + t.w) / 2 and abs(y - t.y) < (d + t.d) / 2 and abs(z - t.z) < (height + t.h) / 2
                for t in room.things
            )
            if not clash:
                return put(room, name, x, y, z, w, d, height, False)
        elif kind.place == "side" or rng.random() < 0.45:
            x, y, w, d = on_wall(room, long, short, side, rng.choice((-1, 1, *[rng.uniform(-1, 1)] * 4)), rng.uniform(0, 0.08))
            if free(room, x, y, w, d):
                return put(room, name, x, y, height / 2, w, d, height)
        else:
            if rng.random() < 0.5:
                long, short = short, long
            x, y = free_spot(room, long, short)
            if free(room, x, y, long, short, 0.1):
                return put(room, name, x, y, height / 2, long, short, height, name not in ("mat", "rug", "carpet"))
    return None


def free_spot(room: Room, w: float, d: float) -> tuple[float, float]:
    return room.rng.uniform(-1, 1) * max(0, room.w - w) / 2, room.rng.uniform(-1, 1) * max(0, room.d - d) / 2


def mount(room: Room, name: str, height: float, place: str) -> float:
    if place == "low":
        return height / 2 + 0.1
    if place == "high":
        return min(room.height - height / 2, room.rng.uniform(1.6, 1.95))
    if "door" in name or "curtain" in name or name in ("drapes", "shower head"):
        return height / 2 + (0.05 if "door" in name else room.rng.uniform(0.0, 0.4))
    if "bar" in name or name == "rail":
        return room.rng.uniform(0.75, 0.95)
    if name in ("power outlet", "toilet paper dispenser"):
        return room.rng.uniform(0.3, 0.8)
    return min(room.height - height / 2, room.rng.uniform(1.1, 1.65))


def place_on(room: Room, name: str, size: tuple[float, float, float], kinds: tuple[str, ...]) -> Thing | None:
    hosts = [t for t in room.things if t.solid and any(t.name.endswith(k) for k in kinds) and t.h < 1.3]
    if not hosts:
        return None
    host = room.rng.choice(hosts)
    sink = 0.45 if kinds is SEATS else 0.0
    return set_on(room, name, host, room.rng.uniform(-0.85, 0.85), room.rng.uniform(-0.7, 0.7), size, sink)


def set_on(
    room: Room, name: str, host: Thing, u: float, v: float, size: tuple[float, float, float] | None = None, sink: float = 0.0
) -> Thing:
    """A thing on a host at (u, v) in [-1, 1] of its free width and depth; its long side lies along the host's."""
    long, short, height = size or size_of(room, KINDS[name])
    w, d = (long, short) if host.w >= host.d else (short, long)
    x = host.x + u * max(0.0, host.w - w) / 2
    y = host.y + v * max(0.0, host.d - d) / 2
    z = host.z + host.h / 2 - sink * host.h + height / 2
    return put(room, name, x, y, z, w, d, height, False)
