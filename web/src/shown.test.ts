import { expect, test } from "vitest";
import { shown, shownLine } from "./shown";

test("plain text, other alphabets, accents and emoji stay as they are", () => {
  for (const text of ["Score churn risk", "naïve café", "größe", "顧客リスト", "قائمة العملاء", "🪢 done ✔️", "a\n\tb"]) {
    expect(shown(text)).toBe(text);
  }
});

test.each([
  ["\x1b[2Jgone", "␛[2Jgone"],
  ["a\0b", "a␀b"],
  ["back\b\b\b\bgone", "back␈␈␈␈gone"],
  ["over\rwritten", "over␍written"],
  ["\x7f", "␡"],
  ["\x9b31m", "⟨U+009B⟩31m"],
  ["pay \u202e001\u202c eur", "pay ⟨U+202E⟩001⟨U+202C⟩ eur"],
  ["\u2066\u2067\u2068\u2069", "⟨U+2066⟩⟨U+2067⟩⟨U+2068⟩⟨U+2069⟩"],
  ["\u200e\u200f\u061c", "⟨U+200E⟩⟨U+200F⟩⟨U+061C⟩"],
  ["send\u200bemail", "send⟨U+200B⟩email"],
  ["\u200c\u200d\u2060\ufeff\u00ad", "⟨U+200C⟩⟨U+200D⟩⟨U+2060⟩⟨U+FEFF⟩⟨U+00AD⟩"],
  ["a\u2028b\u2029c", "a⟨U+2028⟩b⟨U+2029⟩c"],
  ["\u3164\u115f\u2800", "⟨U+3164⟩⟨U+115F⟩⟨U+2800⟩"],
  ["x\u{e0041}\u{e0100}", "x⟨U+E0041⟩⟨U+E0100⟩"],
  ["\ud800", "⟨U+D800⟩"],
])("%j is made visible", (text, expected) => {
  expect(shown(text)).toBe(expected);
});

test("a Windows line end is a line end", () => {
  expect(shown("a\r\nb")).toBe("a\nb");
});

test("a line has no line breaks", () => {
  expect(shownLine("a\nb\r\nc\td \n\n e")).toBe("a b c d e");
});

test("ten thousand line breaks do not push the rest out of view", () => {
  expect(shownLine(`first${"\n".repeat(100)}second`)).toBe("first second");
});

test("a line is cut where it is too long, and says so", () => {
  expect(shownLine("x".repeat(1_000_000), 10)).toBe("xxxxxxxxx…");
  expect(shownLine("x".repeat(10), 10)).toBe("xxxxxxxxxx");
  expect(shownLine("\u202e".repeat(10), 10)).toHaveLength(10);
});

test("a line is not cut inside a character", () => {
  for (let length = 2; length < 9; length++) {
    expect(shownLine("🪢🪢🪢🪢🪢", length)).not.toMatch(/[\ud800-\udbff](?![\udc00-\udfff])|⟨U\+D/u);
  }
});

test("a pile of accents and an endless word are broken, whole or in pieces, and nothing of them is lost", () => {
  const piles = ["a" + "\u0300".repeat(600), "👍" + "🏽".repeat(600), "ب".repeat(600), "ก" + "ิ".repeat(600)];
  for (const text of piles) {
    const letters = [...text];
    const inPieces = letters.map((letter, at) => shown(letter, letters.slice(Math.max(0, at - 200), at).join(""))).join("");
    for (const found of [shown(text), inPieces]) {
      expect(found.replaceAll("⟨…⟩", "")).toBe(text);
      expect(Math.max(...found.split("⟨…⟩").map((run) => [...run].length))).toBeLessThanOrEqual(101);
    }
  }
});

test("what people write has no such runs", () => {
  for (const text of ["Việt Nam", "क्षत्रिय", "السلام عليكم ورحمة الله وبركاته", "ผู้ใหญ่", "👍🏽👍🏽👍🏽"]) {
    expect(shown(text)).toBe(text);
  }
});
