"""Matplotlib's SVG, cleaned: no styles, no metadata, no ids that two figures could share.

The page's content policy allows one style sheet and no inline style, so every `style` becomes presentation
attributes (SVG 2, section 6.6), and colours become classes: the figure is drawn in stand-in colours, one for each
role, which are looked up here.
"""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

INK = {
    "baseline": "#010101",
    "candidate": "#020202",
    "difference": "#030303",
    "noise": "#040404",
    "text": "#050505",
    "muted": "#060606",
    "rule": "#070707",
}
"""Stand-in colours that figures are drawn in."""

_ROLES = {colour: role for role, colour in INK.items()}
_SVG = "http://www.w3.org/2000/svg"
_HREF = "{http://www.w3.org/1999/xlink}href"
_KEPT = frozenset(
    {
        "stroke-width", "stroke-dasharray", "stroke-dashoffset", "stroke-linecap", "stroke-linejoin", "stroke-opacity",
        "fill-opacity", "opacity", "text-anchor",
    }
)  # fmt: skip
_LONG = re.compile(r"-?\d+\.\d{3,}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)px")


def cleaned(document: str, prefix: str, label: str) -> str:
    """Return the `<svg>` element of a matplotlib document, for inlining in a page under `prefix` with a text alternative."""
    root = ET.fromstring(document)  # noqa: S314 - written by matplotlib a moment ago, with no entities
    for parent in list(root.iter()):
        for child in list(parent):
            if _tag(child) in {"metadata", "style"} or _is_background(parent, child):
                parent.remove(child)
    for element in root.iter():
        _restyle(element)
        _rename(element, prefix)
        for name in ("d", "x", "y", "width", "height", "transform"):
            if name in element.attrib:
                element.set(name, _LONG.sub(lambda found: f"{float(found.group()):.2f}", element.attrib[name]).strip())
        element.tag = _tag(element)
        element.tail = None if element.tail is None or not element.tail.strip() else element.tail
        if element.text is not None and not element.text.strip():
            element.text = None
    box = root.attrib["viewBox"]
    root.attrib.clear()
    root.attrib.update({"viewBox": box, "role": "img", "aria-label": label, "class": "plot"})
    for group in [item for item in root.iter("defs") if len(item) == 0]:
        _drop(root, group)
    return ET.tostring(root, encoding="unicode")


def _tag(element: ET.Element) -> str:
    return str(element.tag).removeprefix(f"{{{_SVG}}}")


def _is_background(parent: ET.Element, child: ET.Element) -> bool:
    """The white sheet under the figure and under the axes is the page's business."""
    return parent.get("id", "").startswith("patch_") and "fill: #ffffff" in child.get("style", "")


def _restyle(element: ET.Element) -> None:
    classes = []
    for declaration in element.attrib.pop("style", "").split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name in {"fill", "stroke"}:
            role = _ROLES.get(value.lower())
            if role:
                classes.append(f"{name}-{role}")
            else:
                element.set(name, value)
        elif name in _KEPT:
            element.set(name, value)
        elif name in {"font", "font-size"} and (size := _SIZE.search(value)):
            element.set("font-size", size.group(1))
    if _tag(element) == "text" and not any(name.startswith("fill-") for name in classes):
        classes.append("fill-text")
    if classes:
        element.set("class", " ".join(classes))


def _rename(element: ET.Element, prefix: str) -> None:
    if "id" in element.attrib:
        if _tag(element) == "g":
            del element.attrib["id"]  # names of artists; nothing refers to them
        else:
            element.set("id", prefix + element.attrib["id"])
    if _HREF in element.attrib:
        element.set("href", "#" + prefix + element.attrib.pop(_HREF).removeprefix("#"))
    if "clip-path" in element.attrib:
        element.set("clip-path", element.attrib["clip-path"].replace("url(#", f"url(#{prefix}"))


def _drop(root: ET.Element, item: ET.Element) -> None:
    for parent in root.iter():
        if item in list(parent):
            parent.remove(item)
            return
