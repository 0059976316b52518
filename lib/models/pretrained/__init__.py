"""Networks that others have trained, with the interface of ours."""

from lib.models.pretrained.character_lstm import CharacterLSTM, Characters, character_lstm_names, load_character_lstm
from lib.models.pretrained.language_model import LanguageModel, load_language_model, load_smollm2

__all__ = [
    "CharacterLSTM",
    "Characters",
    "LanguageModel",
    "character_lstm_names",
    "load_character_lstm",
    "load_language_model",
    "load_smollm2",
]
