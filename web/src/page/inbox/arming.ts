/** A call can be allowed only after it could be read: all of it, and its end for a second. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

const READ_MS = 1_000;

/** What is still to be done before a call can be allowed; empty: nothing. */
export type Missing = "" | "fold" | "scroll" | "second";

export const FIRST: Record<Missing, string> = {
  "": "",
  fold: "Read it first: show all of it",
  scroll: "Read it first: scroll to its end",
  second: "Read it first: ready in a second",
};

interface Armed {
  ref: RefObject<HTMLDivElement | null>;
  missing: Missing;
}

/** Watches what `ref` is put on. Each of its parts (`data-part`) has to have been in view, and the last one, its end,
 * for a second, while nothing of it was folded; anew for each `call`. A part that an own scroll bar hides is not in
 * view. */
export function useArmed(call: string, isFolded: boolean): Armed {
  const ref = useRef<HTMLDivElement>(null);
  const [armed, setArmed] = useState("");
  const [atEnd, setAtEnd] = useState("");
  useEffect(() => {
    if (isFolded || !ref.current) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isAtEnd = false;
    const parts = ref.current.querySelectorAll<HTMLElement>("[data-part]");
    const unseen = new Set<Element>(parts);
    const look = (): void => {
      clearTimeout(timer);
      const isRead = isAtEnd && !unseen.size;
      setAtEnd(isRead ? call : "");
      if (isRead && document.visibilityState === "visible") timer = setTimeout(() => setArmed(call), READ_MS);
    };
    const watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        if (isIntersecting) unseen.delete(target);
        if ((target as HTMLElement).dataset["part"] === "end") isAtEnd = isIntersecting;
      }
      look();
    });
    for (const part of parts) watcher.observe(part);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      watcher.disconnect();
      document.removeEventListener("visibilitychange", look);
    };
  }, [call, isFolded]);
  if (isFolded) return { ref, missing: "fold" };
  if (armed === call) return { ref, missing: "" };
  return { ref, missing: atEnd === call ? "second" : "scroll" };
}

/** A key that is held down presses once. */
export function once(event: KeyboardEvent): void {
  if (event.repeat) event.preventDefault();
}
