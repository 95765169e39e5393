"""Dates and times in prose, each as one canonical text: 2026-11-29, --11-29, 15:00, monday.

`03/04/2026` is the third of April or the fourth of March, so it equals only itself; `29/11/2026` has one reading.
"""

from __future__ import annotations

import re

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{name.capitalize()}|{name[:3].capitalize()}\\.?" for name in MONTHS) + r"|Sept\.?"
_WEEKDAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
DATE = re.compile(
    r"(?<![\w.-])(?:"
    r"(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ](?P<isotime>[0-9]{2}:[0-9]{2}(?::[0-9]{2})?))?Z?"
    r"|(?P<slashed>[0-9]{1,4}[/.][0-9]{1,2}[/.][0-9]{1,4})"
    rf"|(?P<day1>[0-9]{{1,2}})(?:st|nd|rd|th)?\.?(?:\sof)?\s(?P<month1>{_MONTH}),?(?:\s(?P<year1>[0-9]{{4}}))?"
    rf"|(?P<month2>{_MONTH})\s(?P<day2>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:,?\s(?P<year2>[0-9]{{4}}))?"
    rf"|(?P<month3>{_MONTH.replace('May|May', 'May(?= [0-9])|May(?= [0-9])')})(?:\s(?P<year3>[0-9]{{4}}))?"
    r"|(?P<time>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)(?:\s?(?P<half>[AaPp]\.?[Mm]\b\.?))?"
    r"|(?P<hour>[0-9]{1,2})\s?(?P<half2>[AaPp]\.?[Mm]\b\.?)"
    rf"|(?P<weekday>{_WEEKDAYS})s?"
    r")(?![\w/])"
)


_NAMES = re.compile("|".join([*(name[:3].capitalize() for name in MONTHS), *_WEEKDAYS.split("|")]))
_NUMERIC = re.compile(r"[0-9](?:[-/.:]|\s?[AaPp]\.?[Mm])")


def may_hold_date(text: str) -> bool:
    """Whether DATE can match at all: a text without a month, a weekday or a dated number is told in a fraction of the time."""
    return _NUMERIC.search(text) is not None or _NAMES.search(text) is not None


def date_text(match: re.Match[str]) -> str:
    """Return the canonical text of a match of DATE."""
    found = match.groupdict()
    if found["iso"]:
        return found["iso"] + (f"T{found['isotime']}" if found["isotime"] else "")
    if found["slashed"]:
        return _slashed(found["slashed"])
    for number in "12":
        if found[f"month{number}"]:
            return _worded(found[f"year{number}"], found[f"month{number}"], found[f"day{number}"])
    if found["month3"]:
        return _worded(found["year3"], found["month3"], None)
    if found["weekday"]:
        return found["weekday"].casefold()
    return _time(found["time"] or f"{found['hour']}:00", found["half"] or found["half2"] or "")


def _worded(year: str | None, month: str, day: str | None) -> str:
    number = next(index for index, name in enumerate(MONTHS, 1) if name.startswith(month[:3].casefold()))
    return f"{year or '-'}-{number:02d}" + (f"-{int(day):02d}" if day else "")


def _slashed(text: str) -> str:
    parts = re.split("[/.]", text)
    first, second, third = map(int, parts)
    if len(parts[0]) == 4 and second <= 12 and third <= 31:
        return f"{parts[0]}-{second:02d}-{third:02d}"
    if len(parts[2]) == 4 and max(first, second) <= 31 and (first > 12) != (second > 12):
        day, month = (first, second) if first > 12 else (second, first)
        return f"{parts[2]}-{month:02d}-{day:02d}"
    return text


def _time(text: str, half: str) -> str:
    hour, _, rest = text.partition(":")
    letter = half[:1].casefold()
    value = int(hour) % 12 + (12 if letter == "p" else 0) if letter and int(hour) <= 12 else int(hour)
    return f"{value:02d}:{rest}"
