export class PullcordBar extends HTMLElement {}

if (!customElements.get("pullcord-bar")) customElements.define("pullcord-bar", PullcordBar);
