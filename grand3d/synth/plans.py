"""What stands in which kind of room: the furnishing lists from which rooms are built.

An entry is ``what least-most`` where ``what`` is a group (see ``rooms``) or a category; alternatives with ``|``.
"""

from __future__ import annotations

from dataclasses import dataclass

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """A room type: ``weight`` of being drawn, range of floor sides in metres, and what it is furnished with."""

    name: str
    weight: int
    sides: tuple[float, float]
    items: tuple[tuple[tuple[str, ...], Span], ...]


_SHELL = "door 1-2, doorframe 0-1, window 0-3, ceiling 0-1, light switch 0-1, trash can 0-2, ceiling light 0-1, radiator 0-1"

_PLANS = {
    "office 14 3.0-7.0": """desk_group 1-6, bookshelf|shelf 0-3, file cabinet|cabinet 0-4, whiteboard|bulletin board 0-2,
        picture 0-3, table_group 0-1, printer|telephone 0-3, recycling bin 0-1, backpack|bag 0-3, box 0-4, book 0-10,
        couch|armchair 0-1, lamp 0-2, cup|bottle 0-3, jacket|clothes 0-1, plant|potted plant 0-2, paper|tissue box 0-2,
        object|fan|clock 0-2""",
    "classroom 22 5.5-9.5": """grid_tables 1-1, chair_row 0-1, whiteboard|blackboard 1-2, projector screen|tv 0-1,
        table|desk 0-1, cabinet|bookshelf 0-2, window 1-4, clock 0-1, bulletin board 0-2, recycling bin|trash can 1-2,
        projector 0-1, box|object 0-2, backpack 0-4""",
    "meeting 18 4.2-8.5": """meeting_table 1-1, chair_row 0-1, whiteboard 1-2, tv|projector screen 0-1,
        cabinet|credenza 0-1, telephone 0-1, picture 0-2, laptop|paper|bottle 0-3, chair 0-3, plant 0-1,
        backpack|bag 0-2, couch 0-1, water cooler 0-1""",
    "bathroom 11 1.8-4.0": """vanity_group 1-2, toilet 1-3, mirror 0-2, towel 0-4, bathtub|shower 0-1,
        shower curtain 0-2, toilet paper 1-3, soap dispenser 0-3, paper towel dispenser 0-2, trash can 0-2,
        handicap bar|bar|rail 0-3, bathroom stall|bathroom stall door 0-3,
        toilet seat cover dispenser|toilet paper dispenser 0-2, scale|mat 0-1, soap dish 0-2,
        shower wall|shower floor 0-2, bucket 0-1, plunger|hair dryer 0-1, light 0-2, bottle 0-2, urinal 0-1, rack 0-1""",
    "bedroom 14 2.8-5.5": """bed_group 1-2, dresser|wardrobe 0-2, desk_group 0-1, curtain 0-2, picture 0-3, tv 0-1,
        mirror 0-1, lamp 0-2, armchair|chair 0-2, backpack|bag|suitcase 0-3, clothes|jacket 0-2, shoe 0-4,
        laundry hamper|laundry basket 0-1, book 0-4, bookshelf|shelf 0-2, box 0-2, mini fridge|microwave 0-1,
        closet door 0-2, blanket|towel 0-2, guitar|fan 0-1, ottoman 0-1, cabinet|file cabinet 0-2, object 0-2""",
    "living 12 3.5-7.5": """sofa_group 1-2, table_group 0-1, tv_group 0-1, bookshelf|shelf|cabinet 0-2, curtain 0-2,
        picture 0-4, lamp 0-2, plant|potted plant 0-2, armchair|sofa chair 0-3, ottoman|stool 0-2, piano|fireplace 0-1,
        book|cup|bottle 0-4, box|bag|backpack 0-3, guitar|guitar case|music stand 0-2, bench 0-1, mat|rug 0-1,
        blanket 0-1, ball|object 0-2, clock|floor lamp 0-1""",
    "kitchen 10 2.3-5.5": """counter_row 1-2, kitchen_row 1-1, refrigerator 1-1, stove|oven 0-1, table_group 0-1,
        dishwasher 0-1, microwave|toaster oven|coffee maker 0-3, cup|bottle|bowl|plate 0-4,
        paper towel roll|dish rack|toaster 0-2, range hood 0-1, stool 0-4, cabinet 0-2, recycling bin 0-1,
        soap dispenser 0-1, water cooler 0-1, box 0-2, towel 0-1, plant 0-1, mini fridge 0-1""",
    "laundry 3 2.3-5.0": """machine_row 1-2, table|bench|counter 0-2, laundry basket|laundry hamper 0-3, cart 0-2,
        vending machine 0-1, chair 0-3, sink 0-1, shelf 0-1, bulletin board|sign 0-2, box 0-2, cabinet 0-2, clothes 0-2,
        bucket 0-2, ladder|broom|dustpan 0-1""",
    "lobby 6 4.0-9.0": """chair_row 0-1, sofa_group 1-3, coffee_group 0-3, table_group 0-3, plant|potted plant 0-3,
        picture 0-3, column|pillar 0-2, bench 0-2, counter|reception desk 0-1, tv|sign 0-2, stairs|rail 0-1,
        magazine 0-2, recycling bin 0-1, mailbox 0-1, piano 0-1, divider 0-1""",
    "library 5 4.0-8.5": """shelf_row 2-4, table_group 1-3, book 2-10, desk_group 0-2, armchair 0-2, window 0-3,
        cart 0-1, stool|step stool 0-2, copier|printer 0-1, lamp 0-2, globe|sign|clock 0-2, couch 0-1""",
    "copy room 3 2.3-5.0": """copier 1-2, printer 0-2, counter_row 0-1, cabinet|shelf 1-3, recycling bin 1-3, box 1-6,
        paper cutter 0-1, mailbox 0-2, table|desk 0-2, bulletin board|calendar 0-2, trash bin|bin 0-1, bucket 0-1,
        paper|tissue box 0-3, telephone 0-1, fire extinguisher 0-1""",
    "storage 4 2.3-5.5": """shelf_row 1-2, box 3-10, storage bin|crate|container 1-5,
        ladder|broom|vacuum cleaner|mop 0-3, bicycle 0-1, suitcase 0-3, cabinet 0-3, bucket|bin 0-3, cart 0-2,
        folded chair|stool 0-3, table 0-1, bag|backpack 0-3, fan|tube|rope 0-2, mattress 0-1""",
    "lounge 15 4.0-8.5": """table_group 3-7, chair_row 0-1, counter_row 0-1, sofa_group 0-1,
        refrigerator|vending machine 0-2, microwave 0-1, water cooler 0-1, picture 0-2, plant 0-2, tv 0-1,
        recycling bin 1-2, stool 0-5, whiteboard 0-1, bottle|cup 0-3""",
    "computer lab 8 4.5-9.0": """desk_row 3-5, printer|copier 0-2, whiteboard|projector screen 1-1,
        cabinet|file cabinet 0-3, backpack 0-3, chair 0-3, window 0-4, box 0-2, projector 0-1, telephone 0-1,
        recycling bin 0-1""",
    "gym 1 4.0-8.0": """treadmill|exercise bike|exercise machine 2-6, dumbbell 0-4, yoga mat|mat 0-4, mirror 1-3, tv 0-2,
        towel 0-3, bench 0-3, ball 0-2, water cooler 0-1, fan 0-2, scale 0-1, bottle 0-3, storage bin 0-1""",
    "mixed 6 3.0-7.0": """table_group 0-1, any_floor 2-7, any_side 2-7, any_wall 2-6, any_top 2-9, any_seat 0-3, chair 0-4""",
}  # fmt: skip


def _read() -> tuple[Plan, ...]:
    plans = []
    for head, text in _PLANS.items():
        name, weight, sides = head.rsplit(" ", 2)
        items = []
        for entry in (text + ", " + _SHELL).split(","):
            what, count = entry.strip().rsplit(" ", 1)
            low, high = count.split("-")
            items.append((tuple(what.split("|")), (int(low), int(high))))
        least, most = sides.split("-")
        plans.append(Plan(name, int(weight), (float(least), float(most)), tuple(items)))
    return tuple(plans)


PLANS: tuple[Plan, ...] = _read()
