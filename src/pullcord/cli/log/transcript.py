"""A run and its stops as one timeline, to be read by people: who asked what when, what was said,
what was shown to whom up to which character, and the receipt. Quarantined text is in it: evidence.
"""

from collections.abc import Iterator, Mapping

from pullcord.cli.log.stop_lines import LogLine, in_words, moment, viewer
from pullcord.cli.render.narration import in_words as event_in_words
from pullcord.cli.render.run_text import paint, plain, receipt_lines
from pullcord.core.events import GuardTripped, Record, TextEnded
from pullcord.core.fold import replay
from pullcord.core.receipts import ended_texts, receipt
from pullcord.core.run import Run
from pullcord.core.show.story import Names
from pullcord.core.stops import StopAsked, StopShown, Viewer
from pullcord.errors import ChainBroken, FormatUnknown
from pullcord.journal.chain import GENESIS, Row, opened
from pullcord.journal.store import LiveText, joined

_PAD = " " * 26
_TAIL = 80


def transcript(
    run_id: str, rows: list[Row], live: list[LiveText], stops: list[LogLine]
) -> Iterator[str]:
    """The lines of one run. `stops`: what the log says of it."""
    paint(is_terminal=False)
    records, trouble = _readable(run_id, rows)
    run = replay(run_id, records)
    texts = ended_texts(records)
    unended = joined(live)
    yield f"Run {run_id} · agent {plain(run.agent)} · thread {plain(run.thread)}"
    yield ""
    after: dict[int, list[LogLine]] = {}
    for stop in stops:
        after.setdefault(stop.entry.seq if stop.entry else len(records), []).append(stop)
    names = Names()
    for record in records:
        yield from _of(record, names)
        for stop in after.pop(record.seq, ()):
            yield from _stop(stop, texts | unended)
    if trouble:
        yield f"{_PAD}NOT READABLE FROM HERE ON: {trouble}"
    for stop in (one for left in after.values() for one in left):
        yield from _stop(stop, texts | unended)
    for part, text in unended.items():
        yield f"{_PAD}said so far, and not ended ({part}):"
        yield from _quoted(text)
    yield ""
    yield from _left_behind(run, texts)


def _readable(run_id: str, rows: list[Row]) -> tuple[list[Record], str]:
    """As many records as follow from one another, and why not more."""
    found: list[Record] = []
    try:
        for record in opened(run_id, rows, seq=0, before=GENESIS):
            found.append(record)
    except (ChainBroken, FormatUnknown) as error:
        return found, str(error)
    return found, ""


def _of(record: Record, names: Names) -> Iterator[str]:
    when, event = moment(record.at_ms), record.event
    if isinstance(event, TextEnded):
        end = "" if event.complete else ", cut"
        whose = f" by {plain(names.step(event.step).name)}" if event.step else ""
        yield f"{when} {record.seq:>5}  said{whose} ({event.part}{end}):"
        yield from _quoted(event.text)
        return
    for number, said in enumerate(event_in_words(record, names).split("\n")):
        yield f"{when} {record.seq:>5}  {said}" if number == 0 else f"{_PAD}     {said}"
    if isinstance(event, GuardTripped) and event.evidence:
        yield f"{_PAD}guard {plain(event.guard)} kept this back; it was shown to nobody:"
        yield from _quoted(event.evidence)


def _stop(found: LogLine, texts: Mapping[str, str]) -> Iterator[str]:
    when, n = moment(found.row.at_ms), found.row.n
    if found.entry is None:
        yield f"{when}  STOP LOG {n}: what it said was deleted"
        return
    act = found.entry.act
    if not isinstance(act, StopShown):
        yield f"{when}  STOP LOG {n}: {in_words(act)}"
        if isinstance(act, StopAsked):
            for part, count in act.said.items():
                yield f"{_PAD}in the journal by then: {count:,} characters of {part}"
        return
    yield f"{when}  STOP LOG {n}: handed to those who watched when it was heard"
    for one in act.viewers:
        yield f"{_PAD}{viewer(one)}"
        yield from _ends_with(one, texts)
    if act.others:
        yield f"{_PAD}{act.others} more, who were no further"


def _ends_with(one: Viewer, texts: Mapping[str, str]) -> Iterator[str]:
    """The last that was handed over of each part, so that nobody has to count."""
    for part, count in one.said.items():
        if part in texts:
            handed = texts[part][:count]
            cut = "…" if len(handed) > _TAIL else ""
            yield f"{_PAD}    {part} up to: “{cut}{plain(handed[-_TAIL:])}”"


def _quoted(text: str) -> Iterator[str]:
    for said in plain(text).split("\n"):
        yield f"{_PAD}| {said}"


def _left_behind(run: Run, texts: Mapping[str, str]) -> Iterator[str]:
    if run.seq == 0:
        return
    yield "What it left behind"
    for said in receipt_lines(receipt(run, texts)):
        yield f"  {said}"
