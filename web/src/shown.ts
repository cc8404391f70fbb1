/** Text that an agent, a tool or a person wrote, fit to be shown: what would act unseen is made visible.
 *
 * Control characters move cursors, bidi marks turn a call around, zero-width ones hide in a name. Each becomes
 * its picture (␛) or its number (⟨U+202E⟩), and stays where it was. */

const UNSEEN = new RegExp(
  "[" +
    "\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}" + // controls, formats, half surrogates, line and paragraph separators
    "\\u034f\\u115f\\u1160\\u17b4\\u17b5\\u2800\\u3164\\uffa0" + // letters and joiners without ink
    "\\u{e0100}-\\u{e01ef}" + // variation selectors that can carry a whole hidden text
    "]",
  "gu",
);

// A browser lays out what joins the character before it as one, in a time that grows with the square of its length:
// fifty thousand accents on one letter, or one endless word of a script that joins its letters, hold the page for
// minutes, and with it the button that stops the agent. So a run of them is broken, where nobody would write one.
const MARK = "[\\p{M}\\p{EMod}]";
const JOINED = "[\\p{scx=Arab}\\p{scx=Syrc}\\p{scx=Mong}\\p{scx=Nkoo}\\p{scx=Adlm}\\p{scx=Rohg}\\p{scx=Mand}]";
const BREAK = "⟨…⟩";
const ENDLESS = [new RegExp(`${MARK}{8}(?=${MARK})`, "gu"), new RegExp(`${JOINED}{100}(?=${JOINED})`, "gu")];
const ENDS_ENDLESS = new RegExp(`(?:${MARK}{8}|${JOINED}{100})$`, "u");
const GOES_ON = new RegExp(`^(?:${MARK}|${JOINED})`, "u");

const LINE_MAX = 240;

/** The text as it is, with its line breaks. `before`: what already stands before it, if it comes in pieces. */
export function shown(text: string, before = ""): string {
  const isEndless = GOES_ON.test(text) && ENDS_ENDLESS.test(before.slice(-200));
  const seen = text
    .replaceAll("\r\n", "\n")
    .replace(UNSEEN, (found) => (found === "\n" || found === "\t" ? found : visible(found)));
  return ENDLESS.reduce((broken, run) => broken.replace(run, `$&${BREAK}`), isEndless ? BREAK + seen : seen);
}

/** The same on one line, and no longer than a line should be. */
export function shownLine(text: string, max = LINE_MAX): string {
  const start = text.trimStart().slice(0, max + 1); // so that a megabyte is not worked through for a line of it
  const flat = shown(start.replace(/\s*[\r\n\t]\s*/g, " ")).trim();
  const isCut = text.length > max || flat.length > max;
  return isCut ? `${flat.slice(0, max - 1).replace(/[\ud800-\udbff]$/, "")}…` : flat;
}

function visible(char: string): string {
  const code = char.codePointAt(0) ?? 0;
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "␡";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
