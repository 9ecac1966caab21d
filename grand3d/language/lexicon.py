"""Words of rooms by what they say of a thing: the knowledge that the parser has of English.

Each set holds a whole class as a reader would list it, not the words of one dataset. All words are lower case and singular;
comparatives are found by their stem (``words.base``).
"""

from __future__ import annotations


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


ATTRIBUTES: dict[str, frozenset[str]] = {
    "color": _set(
        "amber aqua auburn azure beige black blond blonde blue blueish bluish bright bronze brown brownish burgundy "
        "charcoal chestnut clear color colored colorful colour coloured colourful coral cream crimson cyan dark "
        "dark-colored ebony emerald fuchsia gold golden gray grayish green greenish grey greyish hazel indigo ivory jade "
        "khaki lavender light light-colored lilac lime magenta maroon mauve monochrome multicolor multicolored mustard "
        "navy ochre olive opaque orange pale peach pink pinkish plum purple purplish red reddish rose ruby rust salmon "
        "sapphire scarlet silver silvery tan taupe teal terracotta translucent transparent turquoise vermilion violet "
        "white whitish yellow yellowish"
    ),
    "size": _set(
        "big broad bulky chunky compact deep enormous floor-length full-length full-size full-sized giant gigantic great "
        "high huge human-sized king-size king-sized knee-high large large-sized lengthy life-size little long low massive "
        "medium medium-size medium-sized mini miniature narrow oversized petite pocket-size queen-size queen-sized "
        "shallow short sizable sizeable skinny slender slim small small-sized spacious squat tall thick thin tiny "
        "twin-size twin-sized waist-high wide"
    ),
    "shape": _set(
        "angled angular arched bent blocky bowl-shaped box-shaped boxy bulbous circular concave conical convex crescent "
        "cubic cubical cuboid curved curvy cylindrical diagonal domed elliptical flat globular heart-shaped heptagonal "
        "hexagonal hourglass l-shape l-shaped linear oblong octagonal oval ovular pentagonal pointed pointy polygonal "
        "pyramidal rectangle rectangular round rounded semi-circular semicircular shaped slanted sloped spherical spiral "
        "square star-shaped straight t-shaped tabular tapered trapezoidal triangular tubular twisted u-shaped v-shaped "
        "wavy"
    ),
    "number": _set(
        "both couple dozen eight eleven few fifteen five four fourteen many multiple nine numerous pair seven several six "
        "sixteen ten thirteen three twelve twenty two"
    ),
    "material": _set(
        "aluminum bamboo brass brick canvas cardboard ceramic chrome clay cloth concrete copper corduroy cotton denim "
        "fabric felt fiberglass foam fur glass glassy granite iron lace laminate latex leather leatherette linen linoleum "
        "mahogany marble mesh metal metal-top metallic nylon oak oaken papery pine plaster plastic pleather plywood "
        "polyester porcelain quartz rattan rubber satin silk stainless steel stone straw styrofoam suede tile tiled tin "
        "upholstered velvet vinyl walnut wicker wood wooden woody wool woolen woven"
    ),
    "texture": _set(
        "abrasive argyle bendable bendy bouncy braided bristly brittle bubbly bumpy camouflage carpeted checked "
        "checkerboard checkered chevron coarse comfortable comfy corrugated cozy creased crinkled crisp crocheted crunchy "
        "cushioned cushiony cushy dotted durable elastic embossed etched feathered feathery fibrous firm fleece fleecy "
        "flexible flimsy floral flowery fluffy foamy fragile frosted furry fuzzy fuzzy-looking gauzy gingham glazed "
        "gleaming glittery glossy grained grainy greasy gritty grooved hairy hard hard-looking heavy herringbone hollow "
        "houndstooth inflexible iridescent jagged knit knitted lacquered leathery lumpy lustrous malleable marbled matte "
        "mirrored mosaic padded padded-looking paisley paneled patterned perforated pillowy pinstriped plaid pliable "
        "plump plush plushy polished polka-dot porous prickly puffy quilted quilted-looking reflective ribbed ridged "
        "rigid rigid-looking rough rubbery scratchy shaggy sharp shimmering shiny silky slatted sleek slick-looking "
        "slippery slippery-looking smooth soft soft-looking solid sparkly speckled spiky spongey spongy spotted springy "
        "squashy squishy sticky stiff stretchy striped stripy sturdy supple tasseled tender textured thorny tie-dye tough "
        "tufted uneven varnished velvety waffle warm waxy wiry woolly wooly wrinkled wrinkly zigzag"
    ),
    "function": _set("all-purpose functional multi-purpose multipurpose"),
    "style": _set(
        "abstract academic adjustable aesthetic african american antique arabic armless art-deco artistic asian "
        "asymmetrical athletic attractive baby backless baroque bauhaus beachy beautiful bland bohemian boho bold boring "
        "brutalist built-in cartoon cartoonish carved casual charming cheap chic childish childlike chinese christmas "
        "classic classical classroom-style classy clinical coastal collapsible collegiate colonial comic commercial "
        "common complex contemporary conventional convertible corporate cottage country cozy-looking creative cubist "
        "custom cute danish dated deco decorated decorative delicate designer different-looking digital dormitory-style "
        "drab dull eclectic elaborate elegant embellished embroidered english engraved ergonomic ethnic european "
        "executive exotic expensive extravagant fancy farmhouse fashionable feminine festive flashy foldable folding "
        "formal french french-style fun fun-looking funky funny futurist futuristic garish gaudy generic geometric "
        "georgian gilded girly glamorous gothic handcrafted handmade heavy-duty high-backed high-end high-tech hip "
        "hipster historic holiday homemade homey identical impressionist indian industrial informal innovative "
        "inspirational institutional interesting intricate italian japanese japanese-style kid-friendly kitsch kitschy "
        "lavish legless loud lovely low-backed low-tech luxurious luxury majestic masculine matching medieval "
        "mediterranean mid-century military minimal minimalist minimalistic mission modern modern-looking modernist "
        "modernistic moroccan motivational muted mystical nautical neoclassical neutral nice nondescript normal nostalgic "
        "odd odd-looking office-style old-fashioned opulent ordinary oriental ornamental ornate outdoor outdoorsy "
        "patriotic peculiar persian photographic picturesque plain plain-looking playful portable posh pretty "
        "professional quaint quirky realistic reclining regal regular religious renaissance residential retractable retro "
        "ritzy rocking rolling romantic royal rustic scandinavian scenic sci-fi sectional serene shabby similar "
        "similar-looking simple sleek-looking slick sliding sophisticated spanish spartan special sporty standard "
        "standard-issue steampunk strange streamlined stylish subtle surreal swanky swedish swivel swiveling symmetrical "
        "tacky tasteful techy themed traditional trendy tribal tropical tuscan typical ugly unassuming uncommon "
        "unconventional unique unusual unusual-looking upscale urban utilitarian victorian vintage vivid weird "
        "well-designed wheeled whimsical wingback winged woodsy zen"
    ),
    "state": _set(
        "active ajar assembled bare blank broken bundled burnt charged clean cleaned clogged closed cluttered collapsed "
        "cracked crammed crooked crumpled damaged damp deflated dented dirty disorganized draped drawn dry dusty empty "
        "extended faded filled folded fresh frozen full half-closed half-empty half-full half-open half-opened hidden "
        "hung hung-up idle illuminated inflated leaning lit loaded locked loose made messy mostly-empty neat neatly-made "
        "new occupied old open opened organized overflowing overturned packed partially-open plugged plugged-in powered "
        "raised retracted rolled rolled-up running rusty scattered sealed shut sideways sloppy slumped spilled stained "
        "stuffed tidy tilted toppled torn turned unclean unfinished unfolded unlit unlocked unmade unoccupied unopened "
        "unorganized unplugged untidy unused unzipped upright upside-down vacant visible well-kept wet wide-open worn "
        "worn-out wrapped zipped"
    ),
}
"""Adjectives, and nouns that stand before another noun as one, by ViGiL3D's types; ``text_label`` is found by other signs."""

POSITIONAL = _set(
    "actual additional adjacent aforementioned alone alongside attached available best central certain connected "
    "correct diagonal different eastern entire exact facing final following free-standing freestanding highlighted "
    "horizontal immediate individual inner likely located main mounted nearby next northeastern northern northwestern "
    "numerical only opposing original outer overall own parallel particular perpendicular placed positioned possible "
    "present remaining respective said separate side situated southeastern southern southwestern specific standalone "
    "total various vertical western whole"
)
"""Adjectives that are no attribute of a thing: they say where it is, or which."""
ORDINALS = _set(
    "10th 1st 2nd 3rd 4th 5th 6th 7th 8th 9th centermost eighth fifth first fourth last middle middlemost ninth "
    "penultimate second second-to-last seventh sixth tenth third"
)
SIDES = _set("back backmost front frontmost left left-hand left-side leftmost rear right right-hand right-side rightmost")
COMPASS = _set("east north northeast northwest south southeast southwest west")
LEVELS = _set("bottom bottommost lower lowermost top topmost upper uppermost")

GENERIC = _set(
    "anything area article artifact element entity everything group item material object one piece place something "
    "spot structure stuff surface target thing"
)
"""Nouns that say nothing of the kind of a thing."""

CATEGORIES = _set(
    "accessory amenity apparatus appliance appliances art artwork bedding belonging beverage bin clothing container "
    "cookware covering cutlery decor decoration device display document drink electronic electronics equipment fabric "
    "fixture food footrest footwear furnishing furnishings furniture gadget garment gear greenery hardware holder "
    "implement instrument kitchenware light-source lighting linens luggage machine machinery opening panel possession "
    "product receptacle seat seating storage supply support tableware tech technology textile tool toy unit utensil "
    "vegetation vehicle vessel ware"
)
"""Nouns above the names that a thing is usually given: furniture, appliance, container."""
CATEGORY_SECOND = _set("area display equipment solution storage surface system unit")
"""Nouns that make a compound a category: storage unit, working surface."""

ABSTRACT = _set(
    "addition amount angle answer anything appearance arrangement bit case choice color colour condition "
    "configuration contrast conversation design direction distance everything fact height help instruction kind "
    "length location look lot majority manner material matter meeting name nature none nothing option order "
    "orientation pattern point position possibility purpose question rest shape size something state step style task "
    "texture thing time type usage use way width work"
)
"""Nouns of no thing that could be pointed at, where they are not the target."""
ACTIVITIES = _set(
    "baking bathing book cleaning cleaning-related cooking cooling cutting dining display drawing drinking drying "
    "eating entertainment exercise exercising food gaming grooming heating hygiene ironing lighting lounging music "
    "musical office playing presentation printing reading relaxing resting seating serving sewing sitting sleeping "
    "storage storing studying teaching typing viewing washing watching work working workout writing"
)
"""Words of what people do, which before a generic noun say what a thing is for."""
MASSES = _set("cloth cotton cushioning fabric foam glass leather marble metal padding plastic rubber steel stone upholstery wood")

REGIONS = _set(
    "alcove apartment area attic balcony basement bathroom bedroom cafe center centre classroom closet corner "
    "corridor cubicle dining doorway dorm dormitory entrance entryway environment foyer garage gym half hall hallway "
    "home house kitchen lab laboratory laundry library living lobby lounge middle nook office pantry perimeter region "
    "restroom room scene space stall store studio suite vestibule zone"
)
"""Nouns of places that are no objects: anchors that ViGiL3D calls non-objects."""
ROOMS = REGIONS - _set("area center centre corner doorway entrance half middle perimeter region space zone")

PARTITIVES = _set(
    "array assortment back bit bottom bunch center centre cluster collection column corner couple edge end face foot "
    "front group half head item kind line lot middle model number pair part piece pieces pile rest row section series "
    "set sheet side sort stack stretch style top type variety version"
)
"""Nouns before "of" whose thing is the one after it."""
COLLECTIONS = _set("arrangement array bunch circle cluster collection column grid group line pile row sequence series set stack")
TEXT_NOUNS = _set(
    "brand caption character digit font initial inscription label letter lettering logo message name note number "
    "phrase print printing sign slogan text title word writing"
)
TEXT_VERBS = _set(
    "branded inscribed labeled labelled marked named printed read reading reads saying says spelling titled written"
)

PRONOUNS = _set("it its itself their theirs them themselves they")
BE = _set("'re 's am are be been being is was were")
HAVE = _set(
    "contain containing contains displaying displays feature features had has have having hold holding holds include "
    "includes including"
)
MODALS = _set(
    "aren't can can't cannot could did didn't do does doesn't don't isn't may might must should wasn't will won't would"
)
NEGATIVE = _set(
    "aren't can't cannot couldn't didn't doesn't don't except exclude excludes excluding hasn't haven't ignore "
    "ignoring isn't lack lacking lacks neither never no nobody none nor not nothing shouldn't unlike wasn't weren't "
    "without won't wouldn't"
)
SEEK = _set(
    "bring choose clean close detect empty fetch find get give go grab highlight identify indicate locate look mark "
    "move name need open pick pinpoint place point refill remove retrieve search see select show spot take touch use "
    "walk want wipe"
)
"""Verbs whose object is the target, in the imperative or after a wish."""
FACING = _set("come coming enter entering face faces facing lie look looking lying sit sitting stand standing walk walking")
DETERMINERS = _set("a all an another any both each either every my neither no other some such that the these this those your")
CONJUNCTIONS = _set("and but nor or while yet")
RELATIVES = _set("that where which who whom whose")
ADVERBS = _set(
    "about ahead almost also always apart approximately away backward barely closely commonly completely currently "
    "directly down else enough even exactly fairly forward further here horizontally immediately inward inwards just "
    "lengthwise mostly nearly normally now often only out outward outwards partially past please quite rather really "
    "relatively right slightly so somewhat still there together too typically up usually vertically very well"
)
OTHER_VERBS = _set(
    "access aligned allow allows appears arranged assume assuming attached be belong belongs block blocked blocks "
    "built clean cleaning cleans colored coloured come comes coming connected consist consisting consists contain "
    "contains cook cooking cooks cools count counting counts cover covered covers depict depicting depicts designed "
    "dispenses display displayed displays do draped dries drink drinking dry drying eat eating enter entering exit "
    "exiting face faces facing feel filled fixed flanked give gives go going hang hanging hangs heat heating heats "
    "help helping helps hold hung imagine include included includes installed intended keep keeping keeps kept know "
    "laid lay laying lead leading leads lean leaning leans leave leaving left lie lies lined located look looking "
    "looks lying made make makes match matches meant mounted moving need nestled occupies occupy open ordered "
    "oriented perched place placed play playing portrays positioned prepare prints propped provide provides pushed "
    "put read reside resides rest resting rests rotate sandwiched seems seen serve serves serving set shaped share "
    "shares show showing shows sit sits sitting situated sleep sleeping span spans stacked stand standing stands "
    "start starting stationed stop store stored stores storing suited support supports surrounded suspended sweep "
    "sweeping switched throw tucked turn turned turning use used using visible walk walking want wash washes washing "
    "watch watching wedged were work working write writing written"
)
PREPOSITIONS = _set(
    "above across after against along among around as at atop before behind below beneath beside besides between "
    "beyond by closest except excluding facing farthest for from furthest in including inside into like near nearby "
    "nearest next of off on onto opposite outside over per surrounding than through to toward towards under "
    "underneath unlike upon via with within without"
)

NOUNS = _set(
    "archive bed bedding building cable ceiling clothing dish lighting molding moulding native painting paneling "
    "railing relative ring rug seating seed shed shelving something string table thing vegetable wing"
)
"""Nouns with the ending of an adjective or a participle."""
AGENTS = _set("cleaner cooler drier dryer inner lighter litter opener outer setter shutter warmer")
"""Nouns with the ending of a comparative."""
BEFORE_CAN = _set("a beer black cola garbage metal paint recycling rubbish soda the tin trash waste watering white")
CHOOSE = _set("choose find get grab identify locate pick select")
GRADES = _set("extremely fairly less looks more most pretty quite rather relatively slightly somewhat very")
"""Adverbs after which an adjective stands."""
PEOPLE_IAN = _set("guardian historian librarian musician pedestrian")
NO_ADJECTIVES = _set(
    "accessory acrylic activity alley animal arctic army arrival assembly athletic attic baby bakery balcony ball "
    "battery belly berry body call candy carpentry category cemetery century ceramic cereal cherry chimney city "
    "clinic coal comic copy country critic crystal cubby cutlery dairy daisy deal decal delivery dental diary "
    "dictionary directory display doily dormitory electronic embroidery entry entryway fabric factory family ferry "
    "festival gallery garlic goal graphic greenery grocery hall hickory history hobby hockey honey hospital imagery "
    "interval inventory ivy jersey jewelry journal key kitty laboratory laundry library lily lobby logic lottery "
    "machinery magic mahogany mall manual masonry material meal mechanic medal memo memory metal metallic money "
    "monkey mosaic music mystery navy nursery panic pantry party pearl pedal penny petal picnic plastic pony portal "
    "pottery professional property proposal public puppy quality recital rental safety sandal scenery seal security "
    "shawl signal stall stationery statistic story study supply surgery tapestry teddy terminal theory toiletry topic "
    "total towel toy traffic tray trolley turkey upholstery utility valley vanity variety wall"
)
"""Nouns in -y, -ic and -al."""
ADJECTIVES_AND_NOUNS = _set(
    "antique chestnut classic clear color colour contemporary couple curve deep double dozen flat light minimum "
    "orange oval pair plain plum rectangle rose round single spiral spot square standard"
)
SPATIAL = FACING | _set(
    "shows depicts portrays "
    "appears are belongs blocks borders comes connects consists contains covers displays extends faces feels goes had "
    "hang hangs has have holds includes is leads lean leans lie lies look looks makes matches occupies opens "
    "overlooks points protrudes reads remains resides rest rests runs says seems shares sit sits spans stand stands "
    "sticks supports surrounds touches was"
)
"""Verbs that say where a thing is or what it has, so that what follows "that" is no purpose."""
PATTERNS = _set("check dot fur lattice pattern plaid polka stripe texture weave")
"""Nouns that say of what has them how its surface is."""
WISHES = _set("desire hope like love need needed want wanted wish")
MEANT = _set(
    "able best designed functions good great helpful ideal intended made meant necessary needed perfect reserved serves "
    "suitable suited used useful"
)
SERVES = _set("act acting acts functions serve serves serving used")
SEEING = _set("come encounter face find locate notice pass reach see spot view walk")
"""Verbs of what someone does in a room to see a thing, which are no purpose of it."""
USUALLY = _set("normally often use usually")
USES = _set("clean close enter go hold look mark move need open place put take touch use walk want")
"""Verbs of SEEK that after "to" say a purpose."""
DEGREES = _set("least less more most")
