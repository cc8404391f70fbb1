/** A call can be allowed only after it could be read: after a second in view. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";

const READ_MS = 1_000;

/** `isArmed` once what `ref` is put on has been in view for a second; anew for each `call`. */
export function useArmed(call: string): { ref: RefObject<HTMLDivElement | null>; isArmed: boolean } {
  const ref = useRef<HTMLDivElement>(null);
  const [armed, setArmed] = useState("");
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    let isInView = false;
    const look = (): void => {
      clearTimeout(timer);
      if (isInView && document.visibilityState === "visible") {
        timer = setTimeout(() => setArmed(call), READ_MS);
      }
    };
    const watcher = new IntersectionObserver(
      (entries) => {
        isInView = entries.some((entry) => entry.isIntersecting);
        look();
      },
      { threshold: 0.5 },
    );
    if (ref.current) watcher.observe(ref.current);
    document.addEventListener("visibilitychange", look);
    return () => {
      clearTimeout(timer);
      watcher.disconnect();
      document.removeEventListener("visibilitychange", look);
    };
  }, [call]);
  return { ref, isArmed: armed === call };
}

/** A key that is held down presses once. */
export function once(event: KeyboardEvent): void {
  if (event.repeat) event.preventDefault();
}
