/** The style of the page. Its colours are those of the studio. */
export const STYLE: string = `
:root { color-scheme: light dark;
  --bg: light-dark(#ffffff, #111413); --sunken: light-dark(#f6f7f6, #0b0d0c); --hover: light-dark(#f0f2f1, #1e2321); --selected: light-dark(#e6f3ec, #13291e);
  --line: light-dark(#e4e7e5, #262c29); --line-2: light-dark(#cdd3d0, #3b433f); --control: light-dark(#7f8883, #6b756f);
  --text: light-dark(#141816, #eaeeec); --text-2: light-dark(#48504c, #b0bab5); --text-3: light-dark(#5f6863, #919c96);
  --accent: light-dark(#0b7443, #52cf90); --solid: light-dark(#0b7443, #3fbb7d); --on-solid: light-dark(#ffffff, #04140b);
  --red: light-dark(#bb261b, #ff958b); --amber: light-dark(#875100, #efb65c); --blue: light-dark(#1b5cba, #86b8fb) }
* { box-sizing: border-box }
html { scroll-padding-top: 4.5rem }
body { margin: 0; font: 13px/20px system-ui, sans-serif; color: var(--text); background: var(--sunken); display: grid; grid-template: auto 1fr / 300px minmax(0, 1fr) }
[hidden] { display: none !important }
a { color: var(--accent) }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px }
code, pre { font: 12px/18px ui-monospace, monospace }
.bar { grid-column: 1 / -1; position: sticky; top: 0; z-index: 2; display: flex; gap: 12px; align-items: center; padding: 10px 16px; background: var(--sunken); border-bottom: 1px solid var(--line) }
.bar h1 { font-size: 15px; line-height: 20px; margin: 0 auto 0 0; white-space: nowrap } .bar a { color: inherit; text-decoration: none }
.bar label { display: flex; gap: 8px; align-items: center; color: var(--text-2) }
input, textarea, button { color: inherit; background: var(--bg); border: 1px solid var(--control); border-radius: 6px; padding: 4px 8px; font: inherit; min-height: 28px; min-width: 0 }
.bar input { width: 15rem }
.fields input, .fields textarea { font: 12px/18px ui-monospace, monospace; color: var(--text) }
button { cursor: pointer; border-color: var(--line-2) } button:hover { background: var(--hover) }
button.primary { background: var(--solid); color: var(--on-solid); border-color: var(--solid); font-weight: 500 }
button.danger { background: var(--bg); color: var(--red); border-color: var(--red) }
nav { position: sticky; top: 49px; height: calc(100vh - 49px); overflow: auto; padding: 12px 8px 24px }
nav > input { width: 100% } nav ul { list-style: none; margin: 0; padding: 0 }
nav summary { padding: 6px 8px; font-weight: 600; cursor: pointer; border-radius: 6px } nav summary:hover { background: var(--hover) }
nav a { display: block; padding: 4px 8px; border-radius: 6px; color: var(--text); text-decoration: none } nav a:hover { background: var(--hover) } nav a[aria-current] { background: var(--selected) }
nav a small { display: block; color: var(--text-3); font: 11px/16px ui-monospace, monospace; overflow-wrap: anywhere }
nav p { margin: 8px; color: var(--text-3) }
main { background: var(--bg); border-left: 1px solid var(--line); padding: 24px 32px 64px; min-height: calc(100vh - 49px) }
h2 { font-size: 17px; line-height: 24px; letter-spacing: -.015em; margin: 0 }
h3 { font-size: 13px; line-height: 20px; margin: 20px 0 6px } h3 button { min-height: 22px; padding: 0 8px; font: 500 11px/16px system-ui, sans-serif; margin-left: 6px }
p { margin: 0 0 8px } small { color: var(--text-3); font-size: 12px }
.route { margin-top: 4px; overflow-wrap: anywhere } .method { font: 600 12px/18px ui-monospace, monospace; margin-right: 4px }
.get { color: var(--accent) } .post { color: var(--blue) } .put, .patch { color: var(--amber) } .delete, .required { color: var(--red) }
.columns { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 32px; margin-top: 12px } .text > h3:first-child, .try > h3:first-child { margin-top: 0 }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: 4px 8px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; font-weight: 400 } thead th { color: var(--text-3); font-size: 12px }
ul { padding-left: 18px; margin: 0 } li { margin: 3px 0 } .members { list-style: none; border-left: 1px solid var(--line-2); padding-left: 12px; margin: 4px 0 8px } .responses { list-style: none; padding: 0 } .failure a { font: 12px/18px ui-monospace, monospace } summary { cursor: pointer }
.fields { display: grid; grid-template-columns: 10rem minmax(0, 1fr); gap: 6px 12px; align-items: center } .fields label { display: contents; overflow-wrap: anywhere; color: var(--text-2) } .fields .body { display: block; grid-column: 1 / -1 }
.fields textarea { display: block; width: 100%; resize: vertical; margin-top: 4px } .actions { margin: 12px 0 0 }
pre { margin: 0; padding: 10px 12px; background: var(--sunken); border: 1px solid var(--line); border-radius: 9px; overflow: auto; max-height: 24rem; white-space: pre-wrap; overflow-wrap: anywhere }
.answer { margin-top: 12px; border-left: 3px solid var(--accent); padding-left: 12px } .answer p { color: var(--text-2) }
dialog { color: var(--text); background: var(--bg); border: 1px solid var(--line-2); border-radius: 12px; padding: 20px; max-width: 26rem } dialog::backdrop { background: #0006 } dialog form { display: flex; gap: 8px; justify-content: flex-end; margin-top: 12px }
.sections { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 12px; padding: 0; list-style: none } .sections li { border: 1px solid var(--line); border-radius: 9px; padding: 12px 16px; margin: 0 }
:target:not(section) { background: var(--selected) }
@media (max-width: 72rem) { .columns { grid-template-columns: minmax(0, 1fr); gap: 8px } }
@media (max-width: 47.5rem) {
  body { display: block; font-size: 14px } .bar { flex-wrap: wrap; padding: 8px 16px } .bar label { flex: 1 } .bar input { flex: 1; width: auto; min-height: 36px }
  nav { position: static; height: auto; padding: 12px 16px } nav > input, button, .fields input { min-height: 36px } nav #groups, nav #results { max-height: 60vh; overflow: auto }
  main { padding: 16px; border-left: 0; border-top: 1px solid var(--line) } .fields { grid-template-columns: minmax(0, 1fr); gap: 2px } .fields input { margin-bottom: 8px } .sections { grid-template-columns: 1fr }
  .reading nav #groups { display: none }
}
`;
