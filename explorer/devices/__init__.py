"""Capabilities of hardware: data sheets, and the measured machine that this runs on."""
