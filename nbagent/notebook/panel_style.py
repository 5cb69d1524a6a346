"""How the panel looks: the host's theme variables, with fallbacks, as in `render.STYLE`."""

from __future__ import annotations

from nbagent.core.render import BAD, CARD, CODE, LINE, MUTED, STYLE

_PAGE = "var(--jp-layout-color1, var(--vscode-editor-background, #fff))"
_TEXT = "var(--jp-content-font-color1, var(--vscode-foreground, #1f2328))"
ACCENT = "#4f46e5"
_FONT = "var(--jp-ui-font-family, system-ui, sans-serif)"

PANEL_STYLE = (
    STYLE
    + f"""<style>
.nbagent-panel {{border: 1px solid {LINE}; border-radius: 10px; overflow: hidden; max-width: 760px; margin: 4px 0; \
color: {_TEXT}; background: {_PAGE}}}
.nbagent-panel .widget-html, .nbagent-panel .widget-html-content {{margin: 0; line-height: 1.5; height: auto; \
font-size: var(--jp-content-font-size1, 14px)}}
.nbagent-panel > .widget-html:first-child {{display: none}}
.nbagent-panel .nbagent-top {{padding: 6px 10px; border-bottom: 1px solid {LINE}; background: {CARD}; gap: 10px; \
align-items: center; overflow: visible; flex-wrap: wrap}}
.nbagent-panel .nbagent-tabs .widget-toggle-button {{width: auto; margin: 0; padding: 0 9px; line-height: 26px; \
height: 28px; border: 1px solid transparent; border-radius: 6px; background: none; color: {MUTED}; box-shadow: none}}
.nbagent-panel .nbagent-tabs .widget-toggle-button.mod-active {{background: {_PAGE}; color: {_TEXT}; \
border-color: {LINE}}}
.nbagent-panel select, .nbagent-panel textarea, .nbagent-panel input[type=text] {{border: 1px solid {LINE}; \
border-radius: 6px; background: {_PAGE}; color: {_TEXT}; font-family: {_FONT}}}
.nbagent-panel .nbagent-model {{margin: 0; flex: 0 1 190px; min-width: 90px}}
.nbagent-panel .nbagent-model select {{font-size: 12px; text-overflow: ellipsis}}
.nbagent-panel .nbagent-top > .widget-html {{margin-left: auto; flex: 0 1 auto; width: auto}}
.nbagent-meter {{display: flex; flex-wrap: wrap; gap: 2px 12px; color: {MUTED}; font-size: 12px; white-space: nowrap}}
.nbagent-bar {{display: inline-block; width: 64px; height: 5px; margin: 0 0 2px 8px; border-radius: 3px; \
background: {LINE}; overflow: hidden}}
.nbagent-bar b {{display: block; height: 100%; background: {ACCENT}}}
.nbagent-panel .nbagent-chat {{flex-direction: column-reverse; overflow-y: auto; padding: 12px}}
.nbagent-panel .nbagent-chat.nbagent-jump > .nbagent-inner {{max-height: 100%; overflow: clip; \
justify-content: flex-end}}
.nbagent-panel .nbagent-inner, .nbagent-panel .nbagent-log, .nbagent-panel .nbagent-entry {{overflow: visible; \
flex: 0 0 auto; width: 100%}}
.nbagent-panel .nbagent-inner {{margin-bottom: auto}}
.nbagent-panel .nbagent {{max-width: none}}
.nbagent-panel .nbagent p, .nbagent-panel .nbagent ul, .nbagent-panel .nbagent ol {{margin: 6px 0}}
.nbagent-panel .nbagent :is(h1, h2, h3) {{font-size: 1.1em; margin: 12px 0 4px}}
.nbagent-panel .nbagent a {{color: var(--jp-content-link-color, {ACCENT})}}
.nbagent-panel .nbagent p > code, .nbagent-panel .nbagent li > code {{font: 12px {CODE}; background: {CARD}; \
padding: 1px 4px; border-radius: 4px}}
.nbagent-panel .nbagent > table {{border-collapse: collapse; margin: 8px 0; font-size: 13px}}
.nbagent-panel .nbagent > table td, .nbagent-panel .nbagent > table th {{padding: 4px 18px 4px 0; border: 0; \
border-bottom: 1px solid {LINE}; font-variant-numeric: tabular-nums}}
.nbagent-panel .nbagent > table th {{color: {MUTED}; font-weight: 500}}
.nbagent .nbagent-you {{white-space: pre-wrap; overflow-wrap: anywhere; max-height: 16em; overflow: auto; \
background: rgba(99, 102, 241, .13); border-radius: 10px 10px 2px 10px; padding: 6px 12px; width: fit-content}}
.nbagent-said {{display: flex; flex-direction: column; align-items: flex-end; margin: 10px 0 8px 15%}}
.nbagent-said small {{color: {MUTED}; font-size: 11px}}
.nbagent-error {{border: 1px solid {BAD}; border-radius: 8px; padding: 8px 12px; margin: 6px 0; background: {CARD}; \
overflow-wrap: anywhere; white-space: pre-wrap}}
.nbagent-error strong {{color: {BAD}}}
.nbagent-panel > .widget-html .nbagent-error {{margin: 8px 12px}}
.nbagent-panel .nbagent-actions {{margin-top: 2px; overflow: visible}}
.nbagent-panel .nbagent-actions button {{width: auto; padding: 0 6px; background: none; color: {MUTED}; \
font-size: 12px; box-shadow: none}}
.nbagent-panel .nbagent-ask {{border: 1px solid {ACCENT}; border-radius: 8px; padding: 8px 12px; margin: 6px 0; \
background: {CARD}; overflow: visible}}
.nbagent-ask pre {{font: 12px/1.5 {CODE}; margin: 4px 0; white-space: pre-wrap; overflow-wrap: anywhere; \
max-height: 20em; overflow: auto; color: inherit; background: none}}
.nbagent-panel .nbagent-ask textarea {{font-family: {CODE}; font-size: 12px}}
.nbagent-panel .nbagent-input-area {{padding: 8px 10px; border-top: 1px solid {LINE}; overflow: visible}}
.nbagent-panel .nbagent-row {{gap: 8px; align-items: flex-end; overflow: visible}}
.nbagent-panel .nbagent-input {{flex: 1 1 auto; width: auto; margin: 0; height: auto}}
.nbagent-panel .nbagent-input textarea {{field-sizing: content; min-height: 36px; max-height: 12em; padding: 7px 10px; \
border-radius: 8px; line-height: 1.4; resize: none; font-size: 13px}}
.nbagent-panel .nbagent-row button, .nbagent-ask button {{width: auto; height: 32px; padding: 0 14px; \
border-radius: 6px; margin: 0}}
.nbagent-panel .nbagent-row button {{height: 36px}}
.nbagent-ask .widget-hbox {{gap: 6px; overflow: visible}}
.nbagent-panel .nbagent-row button, .nbagent-ask button {{background: {_PAGE}; color: {_TEXT}; \
border: 1px solid {LINE}; box-shadow: none}}
.nbagent-panel .nbagent-row button.mod-primary, .nbagent-ask button.mod-success {{background: {ACCENT}; color: #fff; \
border-color: {ACCENT}}}
.nbagent-status {{color: {MUTED}; font-size: 12px; line-height: 1.5}}
.nbagent-panel .nbagent-other {{overflow: auto}}
.nbagent-panel .nbagent-trace, .nbagent-panel .nbagent-setup {{padding: 10px 14px; overflow: visible}}
.nbagent-head {{color: {MUTED}; font-size: 12px; margin: 8px 0 2px}}
.nbagent-panel .nbagent-trace h4 {{margin: 10px 0 4px; font-size: 13px; font-weight: 600}}
.nbagent-trace h4 small {{color: {MUTED}; font-weight: 400}}
.nbagent-panel .nbagent-trace .widget-html, .nbagent-panel .nbagent-trace .widget-html-content {{display: block; \
width: 100%; min-width: 0; overflow: visible}}
.nbagent-table {{overflow-x: auto}}
.nbagent-panel .nbagent-table table {{border-collapse: collapse; font-size: 12px; margin: 0}}
.nbagent-panel .nbagent-table td, .nbagent-panel .nbagent-table th {{padding: 3px 14px 3px 0; text-align: left; \
border: 0; border-bottom: 1px solid {LINE}; background: none; max-width: 15em; overflow: hidden; \
text-overflow: ellipsis; white-space: nowrap}}
.nbagent-panel .nbagent-table th {{color: {MUTED}; font-weight: 500}}
</style>"""
)
