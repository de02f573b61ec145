"""What a fabric is made of, costs and draws."""
