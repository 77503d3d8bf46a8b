"""The reference interpreter: what programs mean and must satisfy, and what libraries offer."""
