"""The console page as a reader sees it: headings, each with the text or table below it."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Section:
    """The content below a heading."""

    text: str = ""
    """All of it that is in no table."""
    tables: list[list[list[str]]] = field(default_factory=list)
    """Rows of cells; the first row is the header."""

    @property
    def rows(self) -> list[list[str]]:
        """The rows of the first table, without the header."""
        return self.tables[0][1:] if self.tables else []

    def column(self, header: str) -> list[str]:
        """A column of the first table, by its header."""
        place = self.tables[0][0].index(header)
        return [row[place] for row in self.rows]


class Page(HTMLParser):
    """A parsed page. `sections` are keyed by heading; "" is the part above the first one."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.html = html
        self.title = ""
        self.heading = ""
        self.sections = {"": Section()}
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self._inside: list[str] = []
        self._section = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "action"} and tag != "link"]
        if tag in {"meta", "link", "input"}:
            return  # void elements
        self._inside.append(tag)
        section = self.sections[self._section]
        if tag == "h2":
            self._section = "?"
            self.sections["?"] = Section()
        elif tag == "table":
            section.tables.append([])
        elif tag == "tr":
            section.tables[-1].append([])
        elif tag in {"td", "th"}:
            section.tables[-1][-1].append("")
        elif tag == "footer":
            self._section = tag
            self.sections[tag] = Section()

    def handle_endtag(self, tag: str) -> None:
        assert self._inside.pop() == tag, f"{tag} ends where it didn't begin"
        section = self.sections[self._section]
        if tag in {"td", "th"}:
            section.tables[-1][-1][-1] = section.tables[-1][-1][-1].strip()
        elif tag == "h2":
            del self.sections["?"]
            self._section, section.text = section.text, ""
            self.sections[self._section] = section

    def handle_data(self, data: str) -> None:
        section = self.sections[self._section]
        if "style" in self._inside:
            return
        if "title" in self._inside:
            self.title += data
        elif "h1" in self._inside:
            self.heading += data
        elif "td" in self._inside or "th" in self._inside:
            section.tables[-1][-1][-1] += data
        elif "table" not in self._inside:
            section.text = f"{section.text} {data}".strip() if data.strip() else section.text
