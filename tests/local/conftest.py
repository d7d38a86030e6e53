from tests import standins

account, apns_key, clock, localhost = standins.account, standins.apns_key, standins.clock, standins.localhost
