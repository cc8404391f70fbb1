"""What was pressed is known from the bytes, however they arrive; a paste is not many presses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.cli.live.key_reader import Key, KeyReader
from pullcord.cli.live.line_editor import CURSOR, LineEditor


def pressed(*pieces: bytes) -> list[Key]:
    keys = KeyReader()
    return [key for piece in pieces for key in keys.feed(piece)] + keys.quiet()


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        (b"p", ["char"]),
        (b"\x1b", ["esc"]),
        (b"\x1b\x1b", ["esc", "esc"]),
        (b"\x1bc", ["esc", "char"]),
        (b"\x1b[A\x1b[6~", ["up", "page-down"]),
        (b"\x1bOD", ["left"]),
        (b"\x1b[99;5u", []),
        (b"\x1b[" + b"1" * 50, ["char"] * 20),
        (b"\x03\x1a\x7f\r\x15", ["ctrl-c", "ctrl-z", "backspace", "enter", "clear"]),
        ("ß€😀".encode(), ["char"] * 3),
        (b"\x00\x0b\x9b", []),
    ],
)
def test_a_key_is_known_by_what_it_sends(sent: bytes, names: list[str]) -> None:
    assert [key.name for key in pressed(sent)] == names


@given(
    st.lists(
        st.sampled_from(
            [b"p", "ü".encode(), b"\x1b[A", b"\x1b[200~ccc\n\x1b\x1b[201~", b"\x03", b"\x1bOH"]
        )
    ),
    st.data(),
)
def test_it_does_not_matter_in_which_pieces_they_arrive(
    sent: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert pressed(*pieces) == pressed(whole)


def test_a_paste_is_one_thing_whatever_is_in_it() -> None:
    assert pressed(b"\x1b[200~cc\x03\x1b[A\r\x1b[201~") == [Key("paste", "cc\x03\x1b[A\r")]


def test_a_line_is_written_like_everywhere() -> None:
    line = LineEditor("abc def")
    for name in ("word", "left", "left", "delete"):
        line.press(Key(name))
    line.press(Key("char", "X"))
    line.press(Key("end"))
    line.press(Key("paste", "one\ntwo"))
    assert line.text == "abX one two"
    line.press(Key("home"))
    assert line.shown(40).startswith(CURSOR)
    line.press(Key("end"))
    line.press(Key("clear"))
    assert line.text == ""


@given(st.text(), st.integers(10, 60))
def test_a_line_never_takes_more_room_than_there_is(text: str, columns: int) -> None:
    line = LineEditor("".join(text.splitlines()))
    for _ in range(len(text) // 2):
        line.press(Key("left"))
    assert CURSOR in line.shown(columns)
