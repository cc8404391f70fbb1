/** A call can be allowed only after it could be read: all of it, and its end for a second. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

const READ_MS = 1_000;
const LOOK_MS = 100;

/** What is still to be done before a call can be allowed; empty: nothing. */
export type Missing = "" | "fold" | "scroll" | "second";

export const FIRST: Record<Missing, string> = {
  "": "",
  fold: "Read it first: show all of it",
  scroll: "Read it first: scroll through to its end",
  second: "Read it first: ready in a second",
};

interface Armed {
  ref: RefObject<HTMLDivElement | null>;
  missing: Missing;
}

/** Watches what `ref` is put on. Each of its parts (`data-part`) has to have been in view, and the last one, its end,
 * for a second, while nothing of it was folded; anew for each `call`. What a scroll bar hides is not in view, nor an
 * end that lies under something else. */
export function useArmed(call: string, isFolded: boolean): Armed {
  const ref = useRef<HTMLDivElement>(null);
  const [armed, setArmed] = useState("");
  const [atEnd, setAtEnd] = useState("");
  useEffect(() => {
    if (isFolded || !ref.current) return;
    const parts = [...ref.current.querySelectorAll("[data-part]")];
    const unseen = new Set(parts);
    const watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) if (isIntersecting) unseen.delete(target);
    });
    for (const part of parts) watcher.observe(part);
    let since: number | undefined;
    const look = (): void => {
      const isRead = !unseen.size && document.visibilityState === "visible" && isOnTop(parts.at(-1));
      since = isRead ? (since ?? performance.now()) : undefined;
      setAtEnd(isRead ? call : "");
      if (since === undefined || performance.now() - since < READ_MS) return;
      setArmed(call);
      clearInterval(looking);
    };
    const looking = setInterval(look, LOOK_MS);
    return () => {
      clearInterval(looking);
      watcher.disconnect();
    };
  }, [call, isFolded]);
  if (isFolded) return { ref, missing: "fold" };
  if (armed === call) return { ref, missing: "" };
  return { ref, missing: atEnd === call ? "second" : "scroll" };
}

function isOnTop(part: Element | undefined): boolean {
  if (!part) return false;
  const { x, y, width, height } = part.getBoundingClientRect();
  return document.elementFromPoint(x + width / 2, y + height / 2) === part;
}

/** A key that is held down presses once. */
export function once(event: KeyboardEvent): void {
  if (event.repeat) event.preventDefault();
}
