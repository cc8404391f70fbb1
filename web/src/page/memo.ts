/** A component that is made anew only when one of its properties is another. */
import { Component, type ComponentChild, type ComponentType } from "preact";

export function memo<Props extends object>(draw: (props: Props) => ComponentChild): ComponentType<Props> {
  return class extends Component<Props> {
    override shouldComponentUpdate(next: Readonly<Props>): boolean {
      const names = new Set([...Object.keys(next), ...Object.keys(this.props)]) as Set<keyof Props>;
      return [...names].some((name) => next[name] !== this.props[name]);
    }

    override render(): ComponentChild {
      return draw(this.props as Props);
    }
  };
}
