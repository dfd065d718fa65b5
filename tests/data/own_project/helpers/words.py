"""Words without accents."""

from unidecode import unidecode


def plain(text):
    """The text in plain letters."""
    return unidecode(text).strip()
