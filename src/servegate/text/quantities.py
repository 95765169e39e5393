"""Numbers in prose and what they count: value, unit, currency, sign.

Values are compared as decimal text, never as floats, and only ASCII digits make a number: `float` takes `1_000` for 1000,
Arabic digits for ASCII ones and `1e400` for infinity. `1,250`, `1 250` (no-break or thin space) and `1.250,00` are 1250;
`1.250` may be 1250 or one and a quarter, so it equals only itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

DASHES = "-\u2212\u2010\u2011\u2012\u2013\u2014\u2015\ufe63\uff0d"
"""Characters that stand for a minus before a digit; normalising (NFKC) does not map U+2212 to `-`."""
SPACES = "\u00a0\u2009\u202f"
SYMBOLS = "$€£¥₹₩₽₺"
CURRENCY_NAMES = {
    "$": ("us$", "usd", "dollar", "dollars"), "€": ("eur", "euro", "euros"), "£": ("gbp",), "¥": ("jpy", "yen"),
    "₹": ("inr", "rupee", "rupees"), "₩": ("krw",), "chf": ("chf",), "cny": ("cny", "rmb", "yuan"),
}  # fmt: skip
CURRENCIES = {**{symbol: symbol for symbol in SYMBOLS}, **{word: to for to, words in CURRENCY_NAMES.items() for word in words}}
UNIT_NAMES = {
    "%": ("%", "percent", "per cent"), "‰": ("‰",), "pp": ("pp", "percentage point", "percentage points"),
    "kg": ("kilogram", "kilograms", "kilo", "kilos"), "g": ("gram", "grams"), "mg": ("milligram", "milligrams"),
    "µg": ("μg", "ug", "mcg", "microgram", "micrograms"), "t": ("ton", "tons", "tonne", "tonnes"),
    "km": ("kilometer", "kilometers", "kilometre", "kilometres"), "m": ("meter", "meters", "metre", "metres"),
    "cm": ("centimeter", "centimeters", "centimetre", "centimetres"), "mm": ("millimeter", "millimeters", "millimetre"),
    "mi": ("mile", "miles"), "ft": ("foot", "feet"), "inch": ("inches",), "yd": ("yard", "yards"), "nm": (), "µm": ("μm",),
    "l": ("L", "liter", "liters", "litre", "litres"), "ml": ("mL", "milliliter", "milliliters", "millilitre"),
    "s": ("sec", "secs", "second", "seconds"), "ms": ("millisecond", "milliseconds"), "ns": (), "µs": ("μs", "us"),
    "min": ("mins", "minute", "minutes"), "h": ("hr", "hrs", "hour", "hours"), "day": ("days",), "week": ("weeks",),
    "month": ("months",), "year": ("years", "yr", "yrs"), "decade": ("decades",), "century": ("centuries",),
    "°C": ("degrees Celsius", "Celsius"), "°F": ("degrees Fahrenheit", "Fahrenheit"), "°": ("degree", "degrees"), "K": (),
    "bit": ("bits",), "B": ("byte", "bytes"), "kB": ("KB",), "MB": (), "GB": (), "TB": (), "KiB": (), "MiB": (), "GiB": (),
    "TiB": (), "W": ("watt", "watts"), "kW": (), "MW": (), "kWh": (), "V": ("volt", "volts"), "A": ("amp", "amps"), "mAh": (),
    "Hz": ("hertz",), "kHz": (), "MHz": (), "GHz": (), "J": (), "kJ": (), "kcal": (), "cal": ("calories",), "Pa": (), "kPa": (),
    "bar": (), "psi": (), "mph": (), "km/h": ("kph",), "m/s": (), "lb": ("lbs", "pound", "pounds"), "oz": ("ounce", "ounces"),
    "mg/kg": (), "mg/dL": (), "mol": (), "tokens/s": (), "hundred": (), "thousand": (), "million": (), "billion": ("bn",),
    "trillion": (), "dozen": ("dozens",), "times": (), "cent": ("cents",), "nat": ("nats",),
}  # fmt: skip
UNITS = {name: unit for unit, names in UNIT_NAMES.items() for name in (unit, *names)}
_FIRST_NUMBERS = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
    nineteen twenty
"""
_TENS = {"thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90"}
WORDS = {word: str(value) for value, word in enumerate(_FIRST_NUMBERS.split())} | _TENS
del WORDS["one"]  # a pronoun as often as a number; it may stand for 1 where that is missing
MOST_EXPONENT_DIGITS = 6

_DIGITS = (
    rf"(?:[0-9]{{1,3}}(?:[{SPACES}][0-9]{{3}})+(?:[.,][0-9]+)?|[0-9]{{1,3}}(?:,[0-9]{{3}})+(?:\.[0-9]+)?"
    r"|[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+|[0-9]+(?:[.,][0-9]+)*|\.[0-9]+)"
)
_UNIT_WORDS = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))
_MONEY_WORDS = "|".join(sorted((word for word in CURRENCIES if word not in SYMBOLS), key=len, reverse=True))
NUMBER = re.compile(
    rf"(?<![\w.])(?P<before>[{DASHES}+]?(?:(?i:us\$|(?:{_MONEY_WORDS})\s?)|[{SYMBOLS}]\s?)?)(?P<sign>[{DASHES}+]?)"
    rf"(?P<digits>{_DIGITS})(?P<exponent>[eE][+-]?[0-9]+)?"
    rf"(?:[ {SPACES}-]?(?P<unit>(?:{_UNIT_WORDS}|(?i:{_MONEY_WORDS})|[{SYMBOLS}])(?![\w/])"
    r"|(?<=[0-9])[A-Za-zµμ]{1,6}(?![\w-])))?"
    r"(?![\w])"
)
_DIGIT = re.compile("[0-9]")
REACH = max(map(len, CURRENCIES)) + 4
"""Characters of a match of NUMBER before its first digit, at most: two signs, a currency, white space, a point."""
WORD_NUMBER = re.compile(rf"\b(?P<word>{'|'.join(WORDS)})(?:[ -](?P<unit>{_UNIT_WORDS})(?![\w/]))?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Quantity:
    """A number: canonical value (text), canonical unit and currency (empty: none), and whether its value is ambiguous."""

    value: str
    unit: str = ""
    currency: str = ""
    ambiguous: bool = False


def numbers(text: str) -> Iterator[re.Match[str]]:
    """Yield what `NUMBER.finditer` yields, without trying places that are far from any digit."""
    place = 0
    while (digit := _DIGIT.search(text, place)) and (match := NUMBER.search(text, max(place, digit.start() - REACH))):
        yield match
        place = match.end()


def quantity(match: re.Match[str]) -> Quantity:
    """Return what a match of NUMBER means."""
    before, tail = match["before"], match["unit"] or ""
    negative = any(character in DASHES for character in before + match["sign"])
    currency = CURRENCIES.get(before.strip(DASHES + "+ " + SPACES).casefold(), "")
    if not currency and tail.casefold() in CURRENCIES:
        currency, tail = CURRENCIES[tail.casefold()], ""
    value = decimal_text(match["digits"], match["exponent"] or "")
    if value is None:
        return Quantity(match["digits"], UNITS.get(tail, tail), currency, ambiguous=True)
    return Quantity(f"-{value}" if negative and value != "0" else value, UNITS.get(tail, tail), currency)


def word_quantity(match: re.Match[str]) -> Quantity:
    """Return what a match of WORD_NUMBER means."""
    return Quantity(WORDS[match["word"].casefold()], UNITS.get(match["unit"] or "", match["unit"] or ""))


def decimal_text(digits: str, exponent: str = "") -> str | None:
    """Return one spelling for every way to write a value (`1e3`, `1,000.0` -> `1000`); None when it can be read two ways."""
    plain = digits
    for space in SPACES:
        plain = plain.replace(space, "")
    if re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?", plain):
        plain = plain.replace(",", "")
    elif re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+", plain):
        plain = plain.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"[1-9][0-9]{0,2}\.[0-9]{3}", plain) and not exponent:
        return None
    elif re.fullmatch(r"[0-9]+,[0-9]+", plain):
        plain = plain.replace(",", ".")
    if not re.fullmatch(r"[0-9]*(?:\.[0-9]+)?", plain) or len(exponent) > MOST_EXPONENT_DIGITS:
        return None
    whole, _, part = plain.partition(".")
    shift = int(exponent[1:]) if exponent else 0
    figures = (whole + part).lstrip("0")
    power = shift - len(part)
    stripped = figures.rstrip("0")
    power += len(figures) - len(stripped)
    if not stripped:
        return "0"
    if 0 <= power <= 15:
        return stripped + "0" * power
    if -30 <= power < 0:
        padded = stripped.rjust(1 - power, "0")
        return f"{padded[:power]}.{padded[power:]}"
    return f"{stripped}e{power}"
