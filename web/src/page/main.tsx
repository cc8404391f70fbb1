import { render } from "preact";
import "../bar/element";
import "./page.css";

render(<main>Pullcord</main>, document.body);
