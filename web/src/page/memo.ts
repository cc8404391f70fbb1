/** A component that is drawn anew only when one of its properties is another, or a signal it reads. */
import { type ComponentChild, type ComponentType, type FunctionComponent, h } from "preact";
import { useRef } from "preact/hooks";

export function memo<Props extends object>(draw: FunctionComponent<Props>): ComponentType<Props> {
  return function Memo(props: Props) {
    const last = useRef<{ props: Props; drawn: ComponentChild } | null>(null);
    if (last.current && isSame(last.current.props, props)) {
      return last.current.drawn; // the same node as before: nothing below it is looked at
    }
    last.current = { props, drawn: h(draw, props) };
    return last.current.drawn;
  };
}

function isSame<Props extends object>(a: Props, b: Props): boolean {
  const names = Object.keys({ ...a, ...b }) as (keyof Props)[];
  return names.every((name) => a[name] === b[name]);
}
