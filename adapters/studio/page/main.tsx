/** Entry of the studio page. */
import { render } from "preact";
import { Frame } from "./frame/frame.tsx";
import { followTheme } from "./frame/theme.ts";

followTheme();
render(<Frame />, document.getElementById("app") as HTMLElement);
