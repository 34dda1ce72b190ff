"""Charts for the page and for previews of dashboards: data in, static SVG out.

`model` says what there is, `artist` draws it, `legend` tells colours and dashes apart beside the drawing.
"""
