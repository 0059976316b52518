"""A language whose verb agrees with a noun three words back: two words of context are not enough for it."""

from __future__ import annotations

from lib.processes.ngram.language import NgramLanguage

TEMPLATES = (
    "{opening} the {one} near {whom} {does} a {thing} every {day}",
    "{opening} the {many} near {whom} {do} a {thing} every {day}",
)

SLOTS = {
    "opening": ("we saw that", "they said that", "he knew that"),
    "one": ("dog", "fox", "hen", "cow", "owl"),
    "many": ("dogs", "foxes", "hens", "cows", "owls"),
    "whom": ("him", "her"),
    "does": ("chases", "wants", "finds"),
    "do": ("chase", "want", "find"),
    "thing": ("ball", "bone", "nest", "leaf", "stone"),
    "day": ("monday", "sunday", "morning", "evening"),
}

ORDER = 4  # n: "dogs near him" and the verb


def agreement_language(n: int = ORDER) -> NgramLanguage:
    """3600 sentences over 38 words, all equally likely; rules of n - 1 = 3 words of context write exactly these.

    After "near him" the verb is singular or plural, as the noun before it was. Two words of context leave ln 2 nats
    more there than three do.
    """
    return NgramLanguage.from_templates(TEMPLATES, SLOTS, n)
