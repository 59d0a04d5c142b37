"""The dataset card: what a folder of episodes holds, how it sounds, how even it is, and its terms."""
