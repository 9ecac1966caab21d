"""Procedural rooms: furniture placed by plausible rules, with the repetition that real rooms have."""

from __future__ import annotations

import math
from random import Random

from grand3d.scene import Object, Scene
from grand3d.synth.placing import MAX_OBJECTS, TRIES, Room, Thing, free, free_spot, mount, on_wall, place, put, set_on, size_of
from grand3d.synth.plans import PLANS, Plan
from grand3d.synth.vocabulary import KINDS

USUAL_OBJECTS = 30
"""What a room of the usual size holds."""


def _side_spots(table: Thing, per_long: int, per_short: int) -> list[tuple[float, float]]:
    spots = []
    for side in (-1, 1):
        for k in range(per_long):
            u = (k + 0.5) / per_long - 0.5
            spots.append((table.x + u * table.w, table.y + side * (table.d / 2)) if table.w >= table.d else
                         (table.x + side * (table.w / 2), table.y + u * table.d))  # fmt: skip
        for _ in range(per_short):
            spots.append(
                (table.x + side * table.w / 2, table.y) if table.w >= table.d else (table.x, table.y + side * table.d / 2)
            )
    return spots


def _seat(room: Room, name: str, x: float, y: float, table: Thing) -> None:
    """A chair at a table's edge, pulled out a little or tucked in; it may overlap the table but not other things."""
    long, short, height = size_of(room, KINDS[name])
    out = room.rng.uniform(-0.05, 0.4)
    dx, dy = x - table.x, y - table.y
    if abs(abs(dx) - table.w / 2) < 1e-6:
        x += math.copysign(out, dx)
    else:
        y += math.copysign(out, dy)
    others = [t for t in room.things if t is not table and t.solid]
    inside = abs(x) + long / 2 <= room.w / 2 + 0.1 and abs(y) + short / 2 <= room.d / 2 + 0.1
    if inside and not any(abs(x - t.x) < (long + t.w) / 2 - 0.1 and abs(y - t.y) < (short + t.d) / 2 - 0.1 for t in others):
        put(room, name, x, y, height / 2, long, short, height)


def _table_with_chairs(room: Room, names: tuple[str, ...], fill: float, scale: float = 1.0) -> None:
    rng = room.rng
    name = rng.choice(names)
    long, short, height = size_of(room, KINDS[name])
    long = min(long * scale, max(room.w, room.d) - 1.2)
    if room.d > room.w if scale > 1 else rng.random() < 0.5:
        long, short = short, long
    for _ in range(TRIES):
        x, y = free_spot(room, long + 1.0, short + 1.0) if scale == 1 else (rng.uniform(-0.3, 0.3), rng.uniform(-0.3, 0.3))
        if free(room, x, y, long, short, 0.3 if scale == 1 else 0.05):
            table = put(room, name, x, y, height / 2, long, short, height)
            seat = rng.choice(
                (
                    "chair",
                    "chair",
                    "chair",
                    "chair",
                    "office chair",
                    "armchair" if scale == 1 else "chair",
                    "stool" if scale == 1 else "chair",
                )
            )
            for spot in _side_spots(table, max(1, int(max(long, short) / 0.66)), rng.randrange(2)):
                if rng.random() < fill:
                    _seat(room, seat, *spot, table)
            for extra in rng.sample(("laptop", "bottle", "paper", "cup", "book", "bowl", "plant", "telephone"), rng.randrange(3)):
                set_on(room, extra, table, rng.uniform(-0.8, 0.8), rng.uniform(-0.6, 0.6))
            return


def _desk(room: Room, wall: int | None = None) -> None:
    rng = room.rng
    desk = place(room, rng.choice(("desk", "desk", "desk", "table", "computer desk" if rng.random() < 0.1 else "desk")), wall)
    if desk is None:
        return
    for k in range(rng.choice((0, 1, 1, 1, 2, 2, 3))):
        set_on(room, "monitor", desk, rng.uniform(-0.3, 0.3) + (k - 0.5) * 0.6, rng.uniform(-0.6, 0.6))
    for name, chance in (("keyboard", 0.6), ("mouse", 0.2), ("telephone", 0.25), ("lamp", 0.15), ("book", 0.3), ("cup", 0.15)):
        if rng.random() < chance:
            set_on(room, name, desk, rng.uniform(-0.9, 0.9), rng.uniform(-0.8, 0.8))
    seat = rng.choice(("office chair", "chair"))
    spots = _side_spots(desk, 1, 0)
    spots.sort(key=lambda p: math.hypot(*p))
    for spot in spots[: 1 if rng.random() < 0.85 else 2]:
        if rng.random() < 0.9:
            _seat(room, seat, *spot, desk)
    for name, chance in (("computer tower", 0.4), ("trash can", 0.25), ("file cabinet", 0.25), ("box", 0.1), ("backpack", 0.1)):
        if rng.random() < chance:
            long, short, height = size_of(room, KINDS[name])
            height = min(height, desk.h - 0.05)
            u = rng.choice((-1, 1)) * rng.uniform(0.5, 1)
            x = desk.x + (u * max(0, desk.w - long) / 2 if desk.w >= desk.d else 0)
            y = desk.y + (0 if desk.w >= desk.d else u * max(0, desk.d - short) / 2)
            put(room, name, x, y, height / 2, long, short, height, False)


def _bed(room: Room) -> None:
    rng = room.rng
    bed = place(room, "bed")
    if bed is None:
        return
    head = rng.choice((-0.9, 0.9))
    for k in range(rng.choice((0, 1, 2, 2, 2, 3, 4))):
        across = (-0.6, 0.6, 0.0, 0.3)[k % 4] + rng.uniform(-0.15, 0.15)
        set_on(
            room, rng.choice(("pillow",) * 5 + ("cushion",)), bed, head - math.copysign(0.15 * (k // 2), head), across, None, 0.35
        )
    if rng.random() < 0.25:
        set_on(room, "blanket", bed, -head * 0.4, rng.uniform(-0.4, 0.4), None, 0.35)
    for side in (-1, 1):
        if rng.random() < 0.6:
            long, short, height = size_of(room, KINDS["nightstand"])
            along_x = bed.w >= bed.d
            x = bed.x + (math.copysign(bed.w / 2 - long / 2, head) if along_x else side * (bed.w / 2 + short / 2 + 0.06))
            y = bed.y + (side * (bed.d / 2 + short / 2 + 0.06) if along_x else math.copysign(bed.d / 2 - long / 2, head))
            w, d = (long, short) if along_x else (short, long)
            if free(room, x, y, w, d, 0.0):
                name = rng.choice(("nightstand", "nightstand", "end table", "cabinet"))
                stand = put(room, name, x, y, height / 2, w, d, height)
                if rng.random() < 0.65:
                    set_on(room, "lamp", stand, 0, 0)
                elif rng.random() < 0.5:
                    set_on(room, rng.choice(("telephone", "alarm clock", "book", "cup", "tissue box")), stand, 0, 0)


def _sofa(room: Room) -> None:
    rng = room.rng
    couch = place(room, "couch")
    if couch is None:
        return
    for k in range(rng.choice((0, 0, 1, 2, 2, 3, 4))):
        set_on(room, "pillow", couch, (-0.9, 0.9, 0.2, -0.3)[k] + rng.uniform(-0.1, 0.1), rng.uniform(-0.3, 0.3), None, 0.5)
    if rng.random() < 0.7:
        _beside(room, couch, rng.choice(("coffee table", "coffee table", "table", "ottoman")), front=True)
    if rng.random() < 0.5:
        table = _beside(room, couch, "end table", front=False)
        if table and rng.random() < 0.6:
            set_on(room, rng.choice(("lamp", "lamp", "plant", "book")), table, 0, 0)
    for _ in range(rng.choice((0, 0, 1, 2))):
        place(room, rng.choice(("armchair", "armchair", "sofa chair", "chair")))


def _beside(room: Room, host: Thing, name: str, front: bool) -> Thing | None:
    """A thing in front of a host (towards the middle of the room) or at one end of it."""
    rng = room.rng
    long, short, height = size_of(room, KINDS[name])
    w, d = (long, short) if host.w >= host.d else (short, long)
    for _ in range(4):
        if (host.w >= host.d) == front:
            side = -math.copysign(1, host.y) if front else rng.choice((-1, 1))
            x, y = host.x + rng.uniform(-0.2, 0.2) * host.w, host.y + side * ((host.d + d) / 2 + rng.uniform(0.08, 0.45))
        else:
            side = -math.copysign(1, host.x) if front else rng.choice((-1, 1))
            x, y = host.x + side * ((host.w + w) / 2 + rng.uniform(0.08, 0.45)), host.y + rng.uniform(-0.2, 0.2) * host.d
        if free(room, x, y, w, d, 0.0):
            return put(room, name, x, y, height / 2, w, d, height)
    return None


def _row(room: Room, name: str, least: int, most: int, tops: tuple[str, ...] = ()) -> None:
    """Things of one category side by side along a wall."""
    rng, kind = room.rng, KINDS[name]
    long, short, height = size_of(room, kind)
    wall = rng.randrange(4)
    span = room.w if wall < 2 else room.d
    count = min(rng.randint(least, most), int((span - 0.2) / long))
    start = rng.uniform(0, max(0.0, span - count * long)) - span / 2
    z = mount(room, name, height, kind.place) if kind.place in ("high", "wall") else height / 2
    for k in range(count):
        along = (start + (k + 0.5) * long) / max(1e-6, (span - long) / 2)
        x, y, w, d = on_wall(room, long * 0.97, short, wall, along)
        if kind.place in ("high", "wall") or free(room, x, y, w, d, -0.02):
            host = put(room, name, x, y, z, w, d, height, kind.place not in ("high", "wall"))
            for top in tops:
                if rng.random() < 0.4:
                    set_on(room, top, host, rng.uniform(-0.7, 0.7), rng.uniform(-0.5, 0.5), None, 0.1 if top == "sink" else 0.0)


def _grid(room: Room) -> None:
    rng = room.rng
    name = rng.choice(("table", "table", "desk"))
    long, short, height = size_of(room, KINDS[name])
    rows, columns = rng.randint(2, 5), rng.randint(1, 4)
    seat = rng.choice(("chair", "chair", "chair", "office chair"))
    for r in range(rows):
        for c in range(columns):
            x = ((c + 0.5) / columns - 0.5) * (room.w - 0.6)
            y = ((r + 0.5) / rows - 0.5) * (room.d - 1.0)
            if free(room, x, y, long, short, 0.1):
                table = put(room, name, x, y, height / 2, long, short, height)
                for spot in _side_spots(table, max(1, int(long / 0.66)), 0):
                    if (spot[1] < table.y or rng.random() < 0.2) and rng.random() < 0.9:
                        _seat(room, seat, *spot, table)


def _group(room: Room, name: str) -> None:
    rng = room.rng
    if name == "table_group":
        _table_with_chairs(
            room, ("table", "table", "table", "dining table", "round table" if rng.random() < 0.2 else "table"), 0.75
        )
    elif name == "meeting_table":
        _table_with_chairs(room, ("table", "table", "conference table"), 0.95, rng.uniform(1.2, 2.6))
    elif name == "coffee_group":
        _table_with_chairs(room, ("coffee table", "end table", "table"), 0.7)
    elif name == "desk_group":
        _desk(room)
    elif name == "desk_row":
        wall = rng.randrange(4)
        for _ in range(rng.randint(2, 4)):
            _desk(room, wall)
    elif name == "bed_group":
        _bed(room)
    elif name == "sofa_group":
        _sofa(room)
    elif name == "tv_group":
        stand = place(room, rng.choice(("tv stand", "cabinet", "table", "dresser")))
        if stand and stand.h < 1.3:
            set_on(room, "tv", stand, 0, 0)
    elif name == "vanity_group":
        _row(
            room,
            rng.choice(("bathroom vanity", "counter", "bathroom counter", "bathroom cabinet")),
            1,
            1,
            ("sink",) * 2 + ("soap dispenser", "bottle"),
        )
    elif name == "counter_row":
        _row(
            room,
            rng.choice(("kitchen counter", "counter", "cabinet", "kitchen counter")),
            1,
            3,
            ("sink", "microwave", "coffee maker"),
        )
    elif name == "kitchen_row":
        _row(room, rng.choice(("kitchen cabinet", "kitchen cabinet", "kitchen cabinets", "cabinet")), 1, 5)
    elif name == "machine_row":
        _row(room, rng.choice(("washing machine", "washing machine", "clothes dryer", "washing machines")), 2, 6)
    elif name == "shelf_row":
        _row(room, rng.choice(("bookshelf", "bookshelf", "shelf", "cabinet")), 1, 4)
    elif name == "chair_row":
        _row(room, rng.choice(("chair", "chair", "armchair", "office chair", "seat")), 2, 8)
    elif name == "grid_tables":
        _grid(room)
    elif name.startswith("any_"):
        place(room, rng.choice([k.name for k in KINDS.values() if k.place == name[4:]]))


def _furnish(room: Room, plan: Plan, limit: int = MAX_OBJECTS) -> None:
    rng = room.rng
    for names, (least, most) in plan.items:
        share = rng.random()
        count = least + int((most - least + 1) * (share if most - least < 4 else share**1.6))
        for _ in range(min(count, most)):
            if len(room.things) >= limit:
                return
            name = rng.choice(names)
            if name in KINDS:
                place(room, name)
            else:
                _group(room, name)


def make_room(seed: int, least: int = 0) -> Scene:
    """One furnished room: its true objects, ids ``0``, ``1``, ... in the id space ``synthetic``.

    Args:
        least: So many things at least: the floor grows with it, and the room is furnished again, each time as another kind of
            room, until they are there. 0 leaves the room as its plan makes it, with at most MAX_OBJECTS.

    Appearance is in ``attributes``: ``colour``, ``material``, ``shape``. Some rooms stand askew in the frame, as real scans
    do, so that their boxes are wider than their things. The same seed gives the same room.
    """
    for attempt in range(6):
        rng = Random(f"room {seed} {attempt}")
        plan = rng.choices(PLANS, [p.weight for p in PLANS])[0]
        room = Room(rng, rng.uniform(*plan.sides), rng.uniform(*plan.sides) * rng.uniform(0.8, 1.1), rng.uniform(2.3, 2.9))
        limit = max(MAX_OBJECTS, least)
        if least > USUAL_OBJECTS:
            room.w, room.d = (side * math.sqrt(least / USUAL_OBJECTS) for side in (room.w, room.d))
        _furnish(room, plan, limit)
        while len(room.things) < least:
            _furnish(room, rng.choice(PLANS), limit)
        if len(room.things) >= 10:
            break
    rng.shuffle(room.things)
    yaw = 0.0 if rng.random() < 0.6 else rng.uniform(-0.5, 0.5)
    c, s = math.cos(yaw), math.sin(yaw)
    ox, oy = rng.gauss(0, 0.25), rng.gauss(0, 0.25)
    objects = []
    for k, t in enumerate(room.things[:limit]):
        x, y = t.x * c - t.y * s + ox, t.x * s + t.y * c + oy
        w, d = abs(t.w * c) + abs(t.d * s), abs(t.w * s) + abs(t.d * c)
        centroid = (round(x, 3), round(y, 3), round(t.z, 3))
        objects.append(Object(str(k), t.name, centroid, (round(w, 3), round(d, 3), round(t.h, 3)), attributes=t.look))
    return Scene(f"room_{seed}", tuple(objects), id_space="synthetic")
