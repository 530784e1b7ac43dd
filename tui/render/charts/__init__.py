"""This package draws charts from plain numbers: heat maps, stacked bars, sparklines and bars of shares."""
