"""Category names, their usual sizes and places, other words for them, and what their instances look like."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Kind:
    """A category: ``size`` is (long side, short side, height) as ranges in metres; ``place`` is where instances stand."""

    name: str
    size: tuple[Range, Range, Range]
    place: str  # floor, side (floor against a wall), wall, high (upper wall), ceiling, top (on furniture), seat (on bed or couch)


# long side, short side, height in cm; place; names. Several names on a line share sizes.
_TABLE = """
42-62 42-58 72-100 floor chair|folded chair|wooden chair|dining chair|plastic chair|student chair
55-70 52-68 80-110 floor office chair|desk chair|swivel chair|computer chair
72-95 68-90 70-100 floor armchair|sofa chair|recliner|lounge chair|rocking chair|recliner chair
35-50 32-48 42-75 floor stool|seat|step stool|bar stool|footstool|folding stool
55-95 45-70 35-50 floor ottoman|bean bag|pouf|footrest
150-230 75-100 70-95 side couch|loveseat|futon|sectional sofa
100-160 35-50 42-50 side bench|piano bench|storage bench
110-200 65-110 70-78 floor table|conference table|dining table|round table|meeting table|kitchen table|ping pong table|work table
85-130 50-75 36-50 floor coffee table
40-65 40-60 48-66 side end table|side table|nightstand|bedside table
120-180 60-85 70-80 side desk|computer desk|standing desk|work bench|writing desk
180-215 100-180 55-110 side bed|bunk bed|mattress|sofa bed
100-130 60-75 80-100 side crib|baby changing station
90-160 42-60 75-115 side dresser|chest of drawers|credenza|sideboard|buffet
60-120 35-60 75-200 side cabinet|cupboard|display case|storage cabinet|locker|furniture|stand|storage organizer
90-150 55-65 180-215 side wardrobe|wardrobe closet|closet|armoire
38-75 45-65 65-135 side file cabinet|filing cabinet
70-130 28-45 110-200 side bookshelf|shelf|bookcase|storage shelf|rack|book rack|shoe rack|rack stand
90-150 38-50 45-65 side tv stand|media console
150-300 58-70 85-95 side kitchen counter|counter|bathroom counter|bar counter|island|reception desk
60-110 45-58 75-90 side bathroom vanity|bathroom cabinet
60-240 30-40 60-90 high kitchen cabinet|kitchen cabinets|medicine cabinet
65-90 62-75 165-185 side refrigerator|vending machine|fridge
48-58 48-58 60-88 side mini fridge|dishwasher|safe
58-72 58-68 84-105 side washing machine|clothes dryer|washing machines|clothes dryers
58-78 58-66 85-95 side stove|oven|furnace
65-72 38-45 68-78 side toilet|urinal|bidet
150-175 70-80 50-60 side bathtub
85-120 80-95 190-210 side shower|shower stall|bathroom stall
80-160 70-120 190-215 side shower wall|shower floor|closet wall
60-100 4-10 180-205 wall door|closet door|bathroom stall door|shower door|sliding door|doorframe|glass door
70-180 8-22 90-160 wall window|windows|blinds
70-180 15-30 140-230 wall curtain|curtains|shower curtain|drapes
40-90 3-6 35-75 wall picture|painting|poster|photograph|calendar|map|sign|mirror|decoration|board
150-300 3-9 90-125 wall whiteboard|blackboard|bulletin board|projector screen|chalkboard|dry erase board|smart board
60-120 10-20 50-70 low radiator|heater|baseboard
80-125 7-12 50-75 wall tv|flat screen tv
25-35 8-14 25-40 wall clock|wall clock|thermostat|fire alarm|exit sign|vent|fuse box
8-12 2-4 10-14 wall light switch|power outlet|light panel|doorbell
28-42 18-26 30-46 wall paper towel dispenser|toilet seat cover dispenser|hand dryer|toilet paper dispenser|fire extinguisher
10-14 8-12 15-24 wall soap dispenser|hand sanitizer dispenser|telephone booth phone|hair dryer
60-110 6-12 6-12 wall handicap bar|rail|bar|towel rack|coat rack|shower curtain rod|closet rod|grab bar|stair rail
35-70 12-20 35-75 wall towel|hanging jacket
80-200 15-30 4-12 high ledge|windowsill|wall shelf|mantel
60-130 60-130 10-40 ceiling ceiling light|ceiling fan|light|projector|chandelier|pipe
200-420 150-380 5-20 ceiling ceiling
28-42 24-36 28-62 floor trash can|recycling bin|trash bin|waste basket|bin|compost bin|bucket|diaper bin
38-62 32-48 28-55 floor box|storage bin|crate|storage container|cardboard box|container|storage box|chest|toolbox|cooler
45-60 32-45 45-65 floor laundry hamper|laundry basket|hamper|basket
30-46 22-40 35-50 floor backpack|bag|purse|luggage|shopping bag|duffel bag|handbag|paper bag|gym bag
40-50 25-32 55-72 floor suitcase|guitar case|instrument case|cello case
42-52 18-24 40-48 floor computer tower|subwoofer|air purifier|dehumidifier
60-80 50-65 90-125 floor copier|photocopier|water cooler|shredder|atm|water fountain
50-90 45-55 75-105 floor cart|rolling cart|stroller|tray rack|ladder|easel|music stand|golf bag|shopping cart
120-150 55-65 95-120 side piano|fireplace|organ|air hockey table|foosball table|fish tank
160-180 45-60 100-130 floor bicycle|treadmill|exercise bike|exercise machine|motorcycle|scooter
35-48 35-48 130-165 floor floor lamp|coat stand|plant stand|vacuum cleaner|fan|traffic cone|mop|broom|guitar|tripod
40-60 40-60 70-140 floor potted plant|plant|christmas tree|tree
22-30 18-26 8-12 floor shoe|shoes|boots|slippers|slipper|dumbbell|scale|pet bowl|power strip|plunger|dustpan
70-180 45-130 1-4 floor mat|rug|yoga mat|bath mat|carpet
50-60 40-55 150-185 floor person|mannequin|statue|column|pillar|divider|structure|room divider
45-60 14-24 34-46 top monitor|computer monitor|screen|imac
42-48 13-20 2-4 top keyboard|keyboard piano|tray|drawing tablet
32-38 23-28 3-24 top laptop|tablet|notebook computer
10-13 6-8 3-5 top mouse|remote|tv remote|stapler|cell phone|calculator|headphones|watch|glasses|pen|tape
38-50 34-46 24-40 top printer|microwave|toaster oven|fax machine|scanner|bread box|stereo|game console|dvd player
20-26 16-22 9-13 top telephone|radio|alarm clock|router|tissue box|jewelry box|cd case|lunch box
20-36 20-36 35-62 top lamp|desk lamp|table lamp|night lamp
15-30 12-22 3-30 top book|books|folder|binder|magazine|newspaper|paper|envelope|papers|picture frame|photo frame
7-12 7-12 9-26 top cup|bottle|water bottle|mug|glass|soda can|wine bottle|vase|candle|jar|coffee mug|can|spray bottle
18-28 16-24 28-38 top coffee maker|coffee kettle|blender|kettle|toaster|rice cooker|mixer|water pitcher|paper towel roll|speaker
22-34 22-34 6-14 top bowl|plate|fruit bowl|pan|pot|dish|cutting board|soap dish|dish rack|food container|paper cutter|dishes
10-13 10-13 10-13 top toilet paper|toilet paper holder|ball|baseball|toy|apple|orange|banana|globe
10-13 10-13 10-13 top soccer ball|basketball|teapot|tissue roll|candle holder
20-40 18-34 15-40 top plant pot|flower vase|flower pot|figurine|bust|sculpture|trophy|piggy bank|tissue holder|hat|helmet|cap
42-56 32-46 14-50 top sink|bathroom sink|kitchen sink
45-62 18-38 16-42 seat pillow|cushion|teddy bear|stuffed animal|bolster|throw pillow
60-140 50-100 8-25 seat blanket|quilt|comforter|clothes|jacket|coat|sheet|sleeping bag|shirt|sweater|laundry|towels
70-95 45-55 40-60 high range hood|air conditioner|projector mount|tv mount|stage light
110-140 30-40 80-95 floor ironing board|massage table|drying rack
50-70 30-40 60-100 wall mailbox|mailboxes|shower head|display|fuse panel|first aid kit|electrical panel|water heater|key rack
150-300 80-120 60-200 floor stairs|stage|pool table|machine|tent|podium|grill|bathroom partition|counter island
8-20 8-20 15-70 floor object|tube|umbrella|rope|pipe fitting|baseball bat|skateboard|tennis racket|ski|crutches|cane|hose
"""


def _read(table: str) -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    for line in table.strip().splitlines():
        long, short, height, place, names = line.split(maxsplit=4)
        size = tuple(tuple(float(x) / 100 for x in part.split("-")) for part in (long, short, height))
        for name in names.split("|"):
            kinds.setdefault(name, Kind(name, size, place))  # type: ignore[arg-type]
    return kinds


KINDS: dict[str, Kind] = _read(_TABLE)

# Further nouns that people ask for; never placed, so they serve for questions whose answer is no.
_RARE = """accordion, airplane, ambulance, anchor, aquarium, axe, bagel, bathrobe, beaker, binoculars, birdcage, boat, camera,
canoe, car, cat, cauldron, chess board, cow, crane, dartboard, dog, dollhouse, drill, drum, dreamcatcher, elephant,
fishing rod, flag, flute, fork, frisbee, fryer, gas pump, giraffe, gondola, hammer, hammock, harp, horse, hourglass,
ice skate, jukebox, kayak, kite, knife, ladle, lantern, lawn mower, loom, megaphone, microscope, parachute, parasol,
parrot, pizza, rocket, sandbox, saxophone, scissors, sewing machine, shovel, sled, snow globe, spoon, squirrel,
surfboard, swing, syringe, tambourine, telescope, tennis ball, toothbrush, train, tractor, trampoline, trombone,
trumpet, truck, typewriter, unicycle, violin, waffle iron, wheelchair, whisk, windmill, wine rack, wrench, zebra, case
of water bottles, laundry detergent, power drill, bird cage, snowboard, poster tube, cactus, necktie"""
RARE: tuple[str, ...] = tuple(name.strip() for name in _RARE.replace("\n", " ").split(","))

# Other words for exactly the same thing. None of them is a name that the detector writes.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "couch": ("sofa", "sofa", "settee"),
    "tv": ("television", "television", "flat screen", "tv screen"),
    "trash can": ("trashcan", "garbage can", "garbage bin", "wastebasket", "waste bin", "waste basket", "rubbish bin"),
    "recycling bin": ("recycle bin", "recycling can"),
    "nightstand": ("night stand", "bedside table", "night table", "bedside cabinet"),
    "bookshelf": ("bookcase", "book shelf"),
    "refrigerator": ("fridge", "fridge"),
    "mini fridge": ("small fridge", "mini refrigerator", "small refrigerator"),
    "washing machine": ("washer", "laundry machine"),
    "washing machines": ("washers", "row of washing machines"),
    "clothes dryer": ("dryer", "tumble dryer"),
    "file cabinet": ("filing cabinet", "filing cabinet", "drawer cabinet"),
    "monitor": ("computer monitor", "computer screen", "screen", "display", "computer"),
    "computer tower": ("computer case", "pc tower", "desktop computer", "pc", "cpu", "computer"),
    "telephone": ("phone", "desk phone"),
    "stove": ("cooker", "range"),
    "bathtub": ("tub", "bath tub", "bath"),
    "curtain": ("drape", "curtains", "drapes"),
    "picture": ("painting", "framed picture", "wall picture", "photo", "poster", "artwork"),
    "whiteboard": ("white board", "dry erase board", "marker board", "board"),
    "blackboard": ("chalkboard", "chalk board", "board"),
    "bulletin board": ("notice board", "cork board", "pin board"),
    "backpack": ("rucksack", "knapsack", "book bag", "bag"),
    "suitcase": ("travel case", "luggage bag"),
    "office chair": ("desk chair", "swivel chair", "computer chair", "rolling chair", "rolling office chair"),
    "armchair": ("arm chair", "easy chair", "lounge chair", "sofa chair"),
    "sofa chair": ("single sofa", "arm chair", "padded chair"),
    "end table": ("side table", "small table"),
    "bathroom vanity": ("vanity", "sink cabinet"),
    "kitchen counter": ("countertop", "kitchen countertop", "counter top"),
    "counter": ("countertop", "counter top"),
    "copier": ("photocopier", "copy machine", "copying machine", "xerox machine"),
    "shelf": ("shelving unit", "shelves", "shelving", "rack"),
    "cabinet": ("cupboard", "storage cabinet", "cabinets"),
    "kitchen cabinet": ("kitchen cupboard", "upper cabinet", "kitchen cabinets", "cupboard"),
    "kitchen cabinets": ("cabinets", "upper cabinets", "kitchen cupboards"),
    "dresser": ("chest of drawers", "drawer", "drawers"),
    "wardrobe": ("closet", "armoire"),
    "radiator": ("heater", "heating unit"),
    "lamp": ("table lamp", "light", "desk lamp"),
    "door": ("doorway", "entry door", "room door"),
    "paper towel dispenser": ("towel dispenser", "paper dispenser"),
    "laundry hamper": ("hamper", "clothes hamper", "laundry basket"),
    "pillow": ("cushion", "throw pillow", "bed pillow"),
    "potted plant": ("plant", "house plant"),
    "plant": ("potted plant", "house plant"),
    "ottoman": ("footstool", "foot rest", "pouf"),
    "stool": ("bar stool", "small stool"),
    "bucket": ("pail",),
    "box": ("cardboard box", "carton"),
    "storage bin": ("plastic bin", "container", "storage box"),
    "coffee table": ("low table", "center table"),
    "conference table": ("meeting table", "large table"),
    "cart": ("trolley", "rolling cart"),
    "microwave": ("microwave oven",),
    "bathroom stall": ("toilet stall", "stall"),
    "tissue box": ("box of tissues", "kleenex box"),
    "range hood": ("kitchen hood", "hood"),
    "projector screen": ("projection screen", "screen"),
    "light": ("ceiling lamp", "light fixture"),
}

# Coarser words. A speaker may use them; a question about presence takes them literally.
HYPERNYMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("office chair", "armchair", "sofa chair", "folded chair", "recliner chair", "dining chair"), ("chair",)),
    **dict.fromkeys(("coffee table", "end table", "dining table", "conference table", "side table", "desk"), ("table",)),
    **dict.fromkeys(("file cabinet", "kitchen cabinet", "bathroom cabinet", "storage cabinet"), ("cabinet",)),
    **dict.fromkeys(("bookshelf", "book rack", "shoe rack", "rack stand"), ("shelf",)),
    **dict.fromkeys(("recycling bin", "trash bin", "trash can", "storage bin"), ("bin",)),
    **dict.fromkeys(("kitchen counter", "bathroom counter"), ("counter",)),
    **dict.fromkeys(("whiteboard", "blackboard", "bulletin board"), ("board",)),
    **dict.fromkeys(("mini fridge",), ("refrigerator", "fridge")),
    **dict.fromkeys(("shower curtain",), ("curtain",)),
    **dict.fromkeys(("closet door", "bathroom stall door", "shower door"), ("door",)),
    **dict.fromkeys(("backpack", "suitcase", "purse"), ("bag",)),
    **dict.fromkeys(("stool", "ottoman", "bench"), ("seat",)),
    "table": ("desk",),
    "laptop": ("computer",),
    "nightstand": ("table", "cabinet"),
    "bathroom vanity": ("cabinet",),
    "dresser": ("cabinet",),
    "tv": ("monitor",),
}

# What a detector writes instead, or beside, most usual first.
RELATED: dict[str, tuple[str, ...]] = {
    "chair": ("office chair", "office chair", "office chair", "armchair", "folded chair", "sofa chair", "seat", "stool"),
    "office chair": ("chair", "chair", "chair", "armchair"),
    "armchair": ("chair", "sofa chair", "couch", "chair"),
    "sofa chair": ("armchair", "chair", "couch"),
    "couch": ("armchair", "sofa chair", "bench", "bed"),
    "table": ("desk", "coffee table", "dining table", "table", "counter", "end table"),
    "coffee table": ("table", "ottoman", "end table"),
    "end table": ("table", "nightstand", "coffee table", "stool"),
    "dining table": ("table",),
    "conference table": ("table", "table", "desk"),
    "desk": ("table", "table", "cabinet"),
    "nightstand": ("end table", "cabinet", "dresser"),
    "trash can": ("recycling bin", "trash bin", "bucket", "bin", "box"),
    "recycling bin": ("trash can", "trash can", "bucket", "trash bin"),
    "trash bin": ("trash can", "bin"),
    "bin": ("trash can", "box", "bin"),
    "bucket": ("trash can", "bin", "box"),
    "cabinet": ("kitchen cabinet", "file cabinet", "dresser", "shelf", "object", "refrigerator", "wardrobe"),
    "kitchen cabinet": ("cabinet", "kitchen cabinet", "shelf"),
    "kitchen cabinets": ("kitchen cabinet", "cabinet"),
    "file cabinet": ("cabinet", "cabinet", "dresser"),
    "dresser": ("cabinet", "nightstand", "file cabinet"),
    "wardrobe": ("closet", "cabinet", "cabinet"),
    "bookshelf": ("shelf", "shelf", "cabinet", "rack"),
    "shelf": ("bookshelf", "bookshelf", "rack", "cabinet", "ledge", "storage organizer"),
    "kitchen counter": ("counter", "counter", "kitchen cabinet"),
    "counter": ("kitchen counter", "table", "cabinet", "bathroom counter"),
    "bathroom counter": ("counter", "bathroom vanity"),
    "bathroom vanity": ("bathroom cabinet", "cabinet", "counter"),
    "window": ("curtain", "door", "windowsill", "window"),
    "curtain": ("window", "shower curtain", "blinds"),
    "blinds": ("window", "curtain"),
    "door": ("doorframe", "closet door", "window", "cabinet"),
    "closet door": ("door",),
    "bathroom stall door": ("door", "bathroom stall"),
    "picture": ("poster", "bulletin board", "sign", "mirror", "object"),
    "painting": ("picture",),
    "poster": ("picture", "sign"),
    "whiteboard": ("board", "bulletin board", "blackboard", "projector screen"),
    "blackboard": ("whiteboard", "board"),
    "bulletin board": ("whiteboard", "picture", "board", "calendar"),
    "monitor": ("tv", "laptop", "monitor", "computer tower"),
    "tv": ("monitor", "whiteboard", "tv"),
    "computer tower": ("trash can", "box", "file cabinet"),
    "lamp": ("light", "object", "lamp"),
    "pillow": ("cushion", "pillow", "backpack", "object", "bag"),
    "backpack": ("bag", "jacket", "pillow", "object"),
    "bag": ("backpack", "purse", "book"),
    "box": ("object", "bucket", "storage bin", "trash can", "storage container", "suitcase"),
    "storage bin": ("box", "storage container", "container"),
    "cart": ("shelf", "cabinet", "table", "stand"),
    "refrigerator": ("cabinet", "mini fridge", "closet"),
    "mini fridge": ("cabinet", "box", "refrigerator"),
    "microwave": ("toaster oven", "printer", "box"),
    "toaster oven": ("microwave",),
    "washing machine": ("clothes dryer", "washing machine", "dishwasher"),
    "washing machines": ("washing machine",),
    "clothes dryers": ("clothes dryer", "washing machine"),
    "clothes dryer": ("washing machine", "washing machine"),
    "printer": ("copier", "box", "microwave"),
    "copier": ("printer", "trash can", "machine"),
    "towel": ("clothes", "jacket", "shower curtain"),
    "clothes": ("towel", "jacket", "blanket", "backpack"),
    "handicap bar": ("bar", "rail", "bar"),
    "rail": ("bar", "handicap bar"),
    "paper towel dispenser": ("soap dispenser", "toilet seat cover dispenser", "toilet paper dispenser"),
    "toilet paper": ("toilet paper dispenser", "toilet paper holder", "soap dish"),
    "telephone": ("cup", "book", "keyboard", "object"),
    "keyboard": ("book", "paper", "laptop"),
    "book": ("paper", "box", "keyboard", "object"),
    "cup": ("bottle", "bowl", "object"),
    "bottle": ("cup", "soap dispenser"),
    "potted plant": ("plant", "plant"),
    "plant": ("potted plant", "object"),
    "stool": ("chair", "box", "end table", "ottoman"),
    "ottoman": ("coffee table", "stool", "armchair", "box"),
    "bench": ("couch", "table", "seat"),
    "sink": ("bathroom counter", "counter", "sink"),
    "bed": ("couch", "mattress"),
    "toilet": ("toilet", "urinal"),
    "shower": ("shower wall", "shower floor", "shower door"),
    "radiator": ("object", "shelf", "bench"),
    "light": ("ceiling light", "lamp"),
    "column": ("pillar", "structure"),
}

PLURALS: dict[str, str] = {
    "mouse": "mice", "person": "people", "shelf": "shelves", "bookshelf": "bookshelves", "storage shelf": "storage shelves",
    "wall shelf": "wall shelves", "knife": "knives", "furniture": "furniture", "luggage": "luggage", "clothes": "clothes",
    "stairs": "stairs", "blinds": "blinds", "headphones": "headphones", "glasses": "glasses", "scissors": "scissors",
    "shoes": "shoes", "boots": "boots", "slippers": "slippers", "chest of drawers": "chests of drawers", "cactus": "cacti",
    "laundry": "laundry", "case of water bottles": "cases of water bottles", "piano bench": "piano benches",
}  # fmt: skip


def plural(name: str) -> str:
    """The plural of a category name; only the last word changes, a name that is a plural already stays."""
    if name in PLURALS:
        return PLURALS[name]
    head, _, last = name.rpartition(" ")
    if last in PLURALS:
        return f"{head} {PLURALS[last]}"
    if name in KINDS and last.endswith("s") and last[:-1] in {n.rpartition(" ")[2] for n in KINDS}:
        return name
    if last.endswith(("s", "x", "z", "ch", "sh")):
        return name + "es"
    if last.endswith("y") and last[-2:-1] not in "aeiou":
        return name[:-1] + "ies"
    return name + "s"


@lru_cache(maxsize=100_000)
def alike(a: str, b: str) -> bool:
    """Whether a reader may take a thing of one category for one of the other: the same, another word, or a coarser one."""
    return any(
        x == y or x.endswith(f" {y}") or y in SYNONYMS.get(x, ()) or y in HYPERNYMS.get(x, ()) for x, y in ((a, b), (b, a))
    )


COLOURS: tuple[str, ...] = (
    *("black",) * 7, *("white",) * 6, *("brown",) * 6, *("gray",) * 2, *("blue",) * 3, *("red",) * 2,
    *("grey", "green", "tan", "beige", "silver", "yellow", "orange", "cream", "dark", "light", "purple", "teal", "pink"),
    *("dark brown", "light brown", "dark gray", "light gray", "burgundy", "maroon", "navy"),
)  # fmt: skip
MATERIALS: dict[str, tuple[str, ...]] = {
    "floor": ("wooden", "wood", "metal", "plastic", "leather", "fabric", "padded", "cushioned", "upholstered"),
    "side": ("wooden", "wooden", "wood", "metal", "glass", "porcelain", "ceramic", "steel"),
    "wall": ("glass", "wooden", "metal", "framed"),
    "low": ("metal", "white metal"),
    "high": ("wooden", "white", "metal"),
    "ceiling": ("metal", "glass"),
    "top": ("plastic", "metal", "glass", "ceramic"),
    "seat": ("soft", "fluffy", "striped", "checkered", "soft fabric", "velvet"),
}
SHAPES = (
    *("rectangular",) * 9,
    *("square",) * 3,
    *("round",) * 2,
    "long",
    "curved",
    "circular",
    "cylindrical",
    "l - shaped",
    "oval",
)
SIZES = ("small", "small", "large", "large", "big", "tall", "long", "short", "little", "thin", "wide", "medium sized", "narrow")
