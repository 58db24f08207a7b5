"""What a loop that turns rings becomes, for each kind of ring."""
