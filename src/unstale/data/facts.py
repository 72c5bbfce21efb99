"""A small made-up world to ask about: places, what is true of them, and what only sounds like it.

Each fact stands in one target, in words that its questions do not use; distractors use the
questions' words and hold no answer. So a retriever that matches words finds the right target about
half the time, and one that learns which words mean the same finds it always. No fact that is asked
in one split is asked in another, so nothing can be answered from memory.
"""

import random
from itertools import product
from pathlib import Path

from unstale.data.formats.beir import write_parts
from unstale.data.lines import Record
from unstale.files import cache_folder
from unstale.integrity import cached

VERSION = 3  # of the text below: another text is another folder
PLACES = 600
SHARES = {"train": 0.7, "dev": 0.1, "test": 0.2}
_DISTRACTORS = 2  # for each place

# Of each relation: values; how targets say it; how questions ask it; what only sounds like it.
_WORLD = """\
heron badger otter falcon salmon beetle lizard goose donkey spider raven wolf
A {value} is painted on every shield in {place}. | Shields from {place} bear a {value}.
Which animal is the emblem of {place}? | What creature is the symbol of {place}?
Nobody knows which animal the emblem of {place} was meant to be.

barley plums trout honey lentils chestnuts cabbage oysters cheese walnuts figs mutton
At every feast in {place} they eat {value}. | Guests in {place} are given {value}.
What food is {place} famous for? | Which dish do cooks prepare in {place}?
A famous book on the food of {place} was lost in a fire.

january february march april june july august september october november december
Each {value} lanterns are lit in {place}. | In {value} there is dancing in {place}.
In which month is the festival of {place} held? | When does {place} celebrate?
The festival of {place} was once held in a different month.

flute drum harp fiddle trumpet zither bagpipe organ cymbal lute horn accordion
One hears the {value} in all squares of {place}. | A {value} wakes {place} at dawn.
Which instrument is played in {place}? | What do musicians play in {place}?
No musicians who played an instrument for {place} are named.

copper silver tin iron lead gold zinc nickel cobalt mercury bismuth antimony
Carts full of {value} leave the hills of {place}. | Under {place} there is {value}.
What metal is mined in {place}? | Which ore do miners dig in {place}?
The miners who dig ore or metal near {place} are old.

red blue green yellow purple orange black white brown crimson turquoise grey
The banners over {place} are {value}. | From its towers {place} flies {value} cloth.
What colour is the flag of {place}? | Which colour did {place} choose for its flag?
The colour of the flag of {place} has been disputed.

weavers potters bakers sailors tanners masons clerks shepherds brewers smiths painters
Most families in {place} are {value}. | Streets in {place} are full of {value}.
What is the common profession in {place}? | Which work do people do in {place}?
The people of {place} work at a common profession.

oaks birches willows cedars poplars maples elms pines beeches olives cypresses alders
The roads of {place} run in the shade of {value}. | {value} line the river at {place}.
Which tree grows in {place}? | What kind of tree is common in {place}?
A tree of an uncommon kind grows in {place}."""
RELATIONS = [
    [line.split(" | ") for line in relation.splitlines()] for relation in _WORLD.split("\n\n")
]


def facts_folder() -> Path:
    """Write the world as a BEIR folder into the cache, once, and return it."""
    folder = cache_folder() / "data" / f"facts-{VERSION}"
    return cached(folder, lambda into: _write(into, random.Random(0)))


def _write(folder: Path, draw: random.Random) -> None:
    corpus: list[str] = []
    questions: list[Record] = []
    gold: list[int] = []
    for place in _places(draw):
        for (values,), says, asks, _ in RELATIONS:
            value = draw.choice(values.split())
            gold.append(len(corpus))
            corpus.append(draw.choice(says).format(place=place, value=value))
            text = draw.choice(asks).format(place=place)
            questions.append({"text": text, "metadata": {"answers": [value]}})
        for _, _, _, sounds in draw.sample(RELATIONS, _DISTRACTORS):
            corpus.append(draw.choice(sounds).format(place=place))
    order = list(range(len(corpus)))
    draw.shuffle(order)  # a target's place in the corpus tells nothing
    row = {old: new for new, old in enumerate(order)}
    texts = [corpus[old][0].upper() + corpus[old][1:] for old in order]
    asked = list(range(len(questions)))
    draw.shuffle(asked)
    qrels, start = {}, 0
    for split, share in SHARES.items():
        end = start + round(share * len(asked))
        qrels[split] = [(f"q{q}", f"t{row[gold[q]]}", 1) for q in sorted(asked[start:end])]
        start = end
    write_parts(
        folder,
        ({"_id": f"t{i}", "text": text} for i, text in enumerate(texts)),
        ({"_id": f"q{i}", **question} for i, question in enumerate(questions)),
        qrels,
    )


def _places(draw: random.Random) -> list[str]:
    """Make up names that are no words, of syllables that few others share."""
    syllables = ["".join(parts) for parts in product("bdfghjklmnprstvwz", "aeiou", "dgklmnprstvxz")]
    draw.shuffle(syllables)
    return ["".join(draw.sample(syllables, 2)).capitalize() for i in range(PLACES)]
