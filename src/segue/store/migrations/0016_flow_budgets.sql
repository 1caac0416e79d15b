-- What a flow may cost, in dollars; NULL: what is configured for all flows. A raised amount is in raised_budgets, where
-- scope is also flow or tier, and name the flow's id, of a tier with its number.
ALTER TABLE flows ADD COLUMN budget REAL;
