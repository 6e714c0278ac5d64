"""What a store answers: importance, hot shapes, trends, lists, SQL. None of it writes."""
