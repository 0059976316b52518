"""What App. B of Nandakumar, Qu, Mi and Liu prints: two templates, ten slots, one table; apostrophes as printed."""

from __future__ import annotations

TEMPLATES = (
    "{A} woke at {B} o’clock and was too {C} to go back to {D}",
    "He {E} up and {F} on his {G} because he didn’t want to {H} into the {I} in his {J}",
)

SLOTS = {
    "A": ("Harry", "Ron", "Sirius", "Hagrid", "Fred", "George", "Neville", "Draco", "Albus", "Snape"),
    "B": ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    "C": ("excited", "angry", "elated", "agitated", "nervous", "troubled", "upset"),
    "D": ("sleep", "bed"),
    "E": ("got", "stood", "rose"),
    "F": ("put", "pulled"),
    "G": ("jeans", "trousers", "pants", "denims", "slacks"),
    "H": ("walk", "run", "jog", "stroll", "sprint", "saunter", "amble"),
    "I": ("station", "platform", "house", "building", "apartment"),
    "J": ("robes", "pyjamas", "shorts", "underpants", "boxers", "trunks"),
}

ORDER = 4  # n: three words of context and the next one

# the table of all (n - 1)-grams, row by row
_TABLE = """
Harry woke at | Ron woke at | Sirius woke at | Hagrid woke at | Fred woke at
George woke at | Neville woke at | Draco woke at | Albus woke at | Snape woke at
woke at one | woke at two | woke at three | woke at four | woke at five
woke at six | woke at seven | woke at eight | woke at nine | woke at ten
woke at eleven | woke at twelve | at one o’clock | at two o’clock | at three o’clock
at four o’clock | at five o’clock | at six o’clock | at seven o’clock | at eight o’clock
at nine o’clock | at ten o’clock | at eleven o’clock | at twelve o’clock | one o’clock and
two o’clock and | three o’clock and | four o’clock and | five o’clock and | six o’clock and
seven o’clock and | eight o’clock and | nine o’clock and | ten o’clock and | eleven o’clock and
twelve o’clock and | o’clock and was | and was too | was too excited | was too angry
was too elated | was too agitated | was too nervous | was too troubled | was too upset
too excited to | too angry to | too elated to | too agitated to | too nervous to
too troubled to | too upset to | excited to go | angry to go | elated to go
agitated to go | nervous to go | troubled to go | upset to go | to go back
go back to | back to sleep | back to bed | He got up | He stood up
He rose up | got up and | stood up and | rose up and | up and put
up and pulled | and put on | and pulled on | put on his | pulled on his
on his jeans | on his trousers | on his pants | on his denims | on his slacks
his jeans because | his trousers because | his pants because | his denims because | his slacks because
jeans because he | trousers because he | pants because he | denims because he | slacks because he
because he didn’t | he didn’t want | didn’t want to | want to walk | want to run
want to jog | want to stroll | want to sprint | want to saunter | want to amble
to walk into | to run into | to jog into | to stroll into | to sprint into
to saunter into | to amble into | walk into the | run into the | jog into the
stroll into the | sprint into the | saunter into the | amble into the | into the station
into the platform | into the house | into the building | into the apartment | the station in
the platform in | the house in | the building in | the apartment in | station in his
platform in his | house in his | building in his | apartment in his | in his robes
in his pyjamas | in his shorts | in his underpants | in his boxers | in his trunks
"""

PRINTED_TRIGRAMS = tuple(tuple(cell.split()) for row in _TABLE.split("\n") for cell in row.split("|") if cell.strip())
