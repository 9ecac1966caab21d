"""Style and script of the pages. Colours are those that colour-blind readers tell apart; every colour comes with a number."""

STYLE = """
:root{color-scheme:light dark;--ink:#1b2430;--dim:#5d6878;--line:#dde2ea;--page:#fff;--card:#f5f7fa;--off:#9aa4b2;
--good:#0b7a53;--bad:#c0340f;--unsure:#5b6472;--mark:#fff6d6}
@media(prefers-color-scheme:dark){:root{--ink:#e7eaf0;--dim:#9ba6b5;--line:#2d3542;--page:#12161d;--card:#1a202a;--off:#6b7789;
--good:#2fb583;--bad:#f2764f;--unsure:#8d98a8;--mark:#33301c}}
.c0{--c:#0072b2}.c1{--c:#d55e00}.c2{--c:#009e73}.c3{--c:#b5478d}.c4{--c:#8a6d00}.c5{--c:#2596be}.c6{--c:#7a3fb5}.c7{--c:#a03232}
@media(prefers-color-scheme:dark){.c0{--c:#4da6e0}.c1{--c:#ff8a3d}.c2{--c:#2bc59a}.c3{--c:#e58cc2}.c4{--c:#e0bc3a}.c5{--c:#7bc8e8}
.c6{--c:#b48be8}.c7{--c:#ef8585}}
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
header{display:flex;gap:20px;align-items:center;padding:8px 18px;border-bottom:1px solid var(--line);background:var(--card)}
header h1{font-size:17px;margin:0}header form{margin:0 0 0 auto}.done{color:var(--dim);font-size:14px}
progress{width:150px;vertical-align:middle;accent-color:var(--good)}a{color:inherit}
.task{display:grid;grid-template-columns:minmax(0,1.55fr) minmax(360px,1fr);gap:18px;padding:14px 18px;align-items:start}
.views{display:grid;grid-template-columns:1fr 1fr;gap:10px;align-items:start}
figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:10px;padding:4px 8px 8px;cursor:zoom-in}
figcaption{font-size:12px;color:var(--dim)}figure.big{position:fixed;inset:12px;z-index:5;cursor:zoom-out;padding:12px}
figure.big svg{height:calc(100vh - 70px);max-height:none}
svg{display:block;width:100%;max-height:40vh;overflow:visible}svg text{font:11px system-ui,sans-serif;fill:var(--ink)}
svg .name{font-size:9px;fill:var(--dim)}svg .eye{font-size:14px;font-weight:700;fill:var(--dim)}
.floor{fill:var(--page);stroke:var(--line)}.grid{stroke:var(--line);stroke-width:.6;fill:none}
.ink{stroke:var(--dim);stroke-width:2}
.off polygon{fill:var(--off);fill-opacity:.1;stroke:var(--off);stroke-width:.8}.off:hover polygon{fill-opacity:.5}
.off polygon.hollow{fill:none;stroke-dasharray:3 3;stroke-opacity:.6}
.hit polygon{fill:var(--c);fill-opacity:.42;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round}
.hit.hot polygon{fill-opacity:.85;stroke-width:3}svg.dull .hit:not(.hot) polygon{fill-opacity:.12;stroke-opacity:.4}
.badge rect{fill:var(--c)}svg .badge text{fill:#fff;font-weight:700}
@media(prefers-color-scheme:dark){svg .badge text{fill:#10141b}}
.speaker *{fill:var(--ink);stroke:var(--ink);stroke-width:2}
.side{position:sticky;top:10px}.side h2{font-size:18px;margin:0 0 8px}.small{font-size:13px;color:var(--dim)}
.question{margin:0 0 6px;color:var(--dim)}
.text{font-size:19px;line-height:1.6;margin:0 0 14px;color:var(--dim);max-height:38vh;overflow:auto}
mark{background:var(--mark);color:var(--ink);border-radius:4px;padding:2px 4px}
.p{--c:var(--dim)}span.p{color:var(--c);font-weight:600;border-bottom:2px solid var(--c);cursor:default}
span.p.hot,.key .hot{background:color-mix(in srgb,var(--c) 18%,transparent)}span.p sup{font-size:11px;margin-left:1px}
.void{border-bottom-style:dashed!important}.none{font-size:12px;font-weight:400;margin-left:4px}
.c0.p{--c:#0072b2}.c1.p{--c:#d55e00}.c2.p{--c:#009e73}.c3.p{--c:#b5478d}.c4.p{--c:#8a6d00}.c5.p{--c:#2596be}.c6.p{--c:#7a3fb5}
.c7.p{--c:#a03232}
@media(prefers-color-scheme:dark){.c0.p{--c:#4da6e0}.c1.p{--c:#ff8a3d}.c2.p{--c:#2bc59a}.c3.p{--c:#e58cc2}.c4.p{--c:#e0bc3a}
.c5.p{--c:#7bc8e8}.c6.p{--c:#b48be8}.c7.p{--c:#ef8585}}
button{font:inherit;padding:6px 12px;border:1px solid var(--line);border-radius:8px;background:var(--page);color:inherit;
cursor:pointer}
button:disabled{opacity:.4;cursor:default}
button:focus-visible,figure:focus-visible{outline:3px solid var(--good);outline-offset:2px}
kbd{font:12px ui-monospace,monospace;border:1px solid currentColor;border-radius:4px;padding:0 5px;opacity:.7;margin-left:4px}
.vote{display:flex;gap:10px;margin:0 0 14px}.vote button{flex:1;padding:14px 8px;font-weight:600;border-width:2px}
.v0{border-color:var(--good)!important;color:var(--good)!important}
.v1{border-color:var(--bad)!important;color:var(--bad)!important}
.v2{border-color:var(--unsure)!important;color:var(--unsure)!important}
.vote button:hover:enabled,.begin:hover{background:var(--card)}.sent .vote button{opacity:.5}
.key{display:grid;gap:4px;font-size:14px;margin-bottom:8px}
.key>div{display:flex;gap:8px;border-left:4px solid var(--c);padding-left:8px}
.key ul{margin:0;padding:0;list-style:none}.key b{color:var(--c)}.all{font-size:13px;color:var(--dim)}.all p{margin:2px 0}
.said{background:var(--mark);border-left:4px solid var(--bad);padding:6px 10px;margin:0 0 10px}
.steps ol{padding-left:24px;margin:0 0 10px}.steps li{margin-bottom:6px}.steps li label{cursor:pointer}
.steps .w{color:var(--dim);font-size:12px}
.steps li:has(:checked){text-decoration:line-through;text-decoration-color:var(--bad)}.steps li:has(:checked) .w{color:var(--bad)}
fieldset{border:1px solid var(--line);border-radius:8px;margin:0 0 10px}fieldset label{display:block;font-size:14px;margin:4px 0}
textarea,select{font:inherit;width:100%}fieldset[hidden]{display:none}
.how{max-width:860px;margin:0 auto;padding:28px 18px 60px}.how h1{font-size:26px;margin:0 0 8px}.how>ol li{margin-bottom:6px}
.how article{display:grid;grid-template-columns:300px 1fr;gap:18px;align-items:center;border:1px solid var(--line);
border-left:5px solid var(--good);border-radius:10px;padding:8px 14px;margin:12px 0;background:var(--card)}
.how article.bad{border-left-color:var(--bad)}.how b.good{color:var(--good)}.how b.bad{color:var(--bad)}
.how article b{margin-right:6px}.keys{columns:2;padding-left:20px}.begin{font-size:18px;padding:10px 34px;font-weight:600}
@media(max-width:900px){.task{grid-template-columns:1fr}.side{position:static;order:-1}}
"""

SCRIPT = """
'use strict';
const [vote, seconds, undo, mend, go] = ['vote', 'seconds', 'undo', 'mend', 'go'].map(id => document.getElementById(id));
let seen = 0, since = document.hidden ? null : performance.now(), sent = false;
const stop = () => { if (since !== null) seen += performance.now() - since; since = null; };
document.addEventListener('visibilitychange', () => document.hidden ? stop() : since ??= performance.now());
if (vote) {
  const name = 'grand3d-' + location.pathname + vote.elements.task.value;
  try { seen = Number(sessionStorage.getItem(name)) || 0; } catch {}
  addEventListener('pagehide', () => { stop(); try { sessionStorage.setItem(name, sent ? '' : seen); } catch {} });
  vote.addEventListener('submit', event => {
    if (sent) { event.preventDefault(); return; }
    sent = true; stop(); seconds.value = (seen / 1000).toFixed(2); vote.classList.add('sent');
  });
}
addEventListener('pageshow', event => { if (event.persisted) location.reload(); });
const shut = () => document.querySelectorAll('figure.big').forEach(f => f.classList.remove('big'));
document.querySelectorAll('figure').forEach(figure => figure.addEventListener('click', () => {
  const big = figure.classList.contains('big'); shut(); figure.classList.toggle('big', !big);
}));
const heat = (keys, on) => {
  document.querySelectorAll('svg').forEach(svg => svg.classList.toggle('dull', on));
  document.querySelectorAll('[data-k]').forEach(item =>
    item.classList.toggle('hot', on && item.dataset.k.split(' ').some(k => keys.includes(k))));
};
document.querySelectorAll('[data-k]').forEach(item => {
  const keys = item.dataset.k.split(' ');
  item.addEventListener('pointerenter', () => heat(keys, true));
  item.addEventListener('pointerleave', () => heat(keys, false));
});
const boxes = [...document.querySelectorAll('[name=wrong]')];
const refresh = () => {
  const wrong = boxes.filter(box => box.checked);
  mend.hidden = wrong.length !== 1;
  for (const item of mend.elements) item.disabled = mend.hidden;
  const words = wrong.length === 1 ? wrong[0].dataset.words : '';
  if (mend.dataset.of !== words) { vote.elements.text.value = words; mend.dataset.of = words; }
  const said = ['No step is wrong', 'One step is wrong: put it right'][wrong.length];
  go.firstChild.textContent = (said || wrong.length + ' steps are wrong: drop the plan') + ' ';
  go.className = ['v0', 'v2'][wrong.length] || 'v1';
};
if (boxes.length) { boxes.forEach(box => box.addEventListener('change', refresh)); refresh(); }
addEventListener('keydown', event => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || /TEXTAREA|SELECT/.test(event.target.tagName)) return;
  const key = event.key.toLowerCase();
  if (key === 'escape') shut();
  if (key === 'u' && undo && !undo.disabled) undo.click();
  const button = [...document.querySelectorAll('[data-key]')].find(item => item.dataset.key === key);
  if (button && !sent) button.click();
  if (boxes.length && /^[1-9]$/.test(key) && boxes[key - 1]) boxes[key - 1].click();
  if (key === 'enter' && go && !sent && !/BUTTON|^A$/.test(event.target.tagName)) { event.preventDefault(); go.click(); }
});
"""
