"""What every web page of Hearth needs: where it listens, and who may use it (`address`, `guard`)."""
