"""What every picture is drawn with: marks, colours, tables, graphs in layers."""
