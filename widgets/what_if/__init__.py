"""What if: every option of the systems and every figure of the hardware, to change."""
